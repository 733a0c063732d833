/** Phase form: the exact numbers of the phase selected on the track. */
import type { PhaseDocument } from "@redrive/simulator";
import { useId } from "preact/hooks";
import { Segmented } from "../../../components/segmented.tsx";
import { Select } from "../../../components/select.tsx";
import { merged } from "../document/document.ts";
import { kindInfo, phaseKinds, strengthOf, withKind } from "../document/phases.ts";
import { chosenPhase, editPhases, phases } from "../state/system-store.ts";
import { removePhase } from "./phase-track.tsx";

const KIND_GROUPS = [
  {
    label: "Kinds of faults",
    options: phaseKinds.map(({ kind, label }) => ({ value: kind, label })),
  },
];

export function PhaseForm() {
  const index = chosenPhase.value;
  const phase = index === undefined ? undefined : phases.value[index];
  if (index === undefined || phase === undefined) {
    return (
      <p class="faint hint">
        Drag a bar to move it, or its edges to resize it. Arrow keys do the same; Delete removes it.
      </p>
    );
  }
  const set = (next: PhaseDocument) =>
    editPhases((list) => list.map((one, other) => (other === index ? next : one)));
  return (
    <div class="phase-form">
      <Select
        label="Fault"
        value={phase.kind}
        groups={KIND_GROUPS}
        onChange={(kind) => set(withKind(phase, kind as PhaseDocument["kind"]))}
      />
      <Seconds
        label="From"
        ms={phase.atMs}
        min={0}
        onChange={(atMs) => set({ ...phase, atMs: Math.min(atMs, 86_400_000) })}
      />
      <Seconds
        label="For"
        ms={phase.forMs}
        min={0.001}
        onChange={(forMs) => set({ ...phase, forMs: Math.min(Math.max(1, forMs), 86_400_000) })}
      />
      <StrengthField phase={phase} set={set} />
      {(phase.kind === "OUTAGE" || phase.kind === "FAILOVER") && (
        <Segmented
          label="Calls during the outage"
          value={phase.mode ?? "FAIL_FAST"}
          options={[
            { value: "FAIL_FAST", label: "fail immediately" },
            { value: "HANG", label: "hang" },
          ]}
          onChange={(mode) => set(merged(phase, { mode: mode === "HANG" ? mode : undefined }))}
        />
      )}
      {phase.kind === "FAILOVER" && (
        <Seconds
          label="Warms up for"
          ms={phase.warmMs ?? 0}
          min={0}
          onChange={(warmMs) => set({ ...phase, warmMs: Math.min(warmMs, 3_600_000) })}
        />
      )}
      <button type="button" class="button" onClick={() => removePhase(index)}>
        Delete
      </button>
    </div>
  );
}

interface SecondsProps {
  readonly label: string;
  readonly ms: number;
  readonly min: number;
  onChange(ms: number): void;
}

function Seconds({ label, ms, min, onChange }: SecondsProps) {
  return (
    <NumberInput
      label={label}
      value={ms / 1000}
      unit="s"
      min={min}
      max={86_400}
      step={0.001}
      onChange={(seconds) => onChange(Math.round(seconds * 1000))}
    />
  );
}

interface StrengthFieldProps {
  readonly phase: PhaseDocument;
  set(phase: PhaseDocument): void;
}

function StrengthField({ phase, set }: StrengthFieldProps) {
  const { strength } = kindInfo(phase.kind);
  const value = strengthOf(phase);
  if (strength === undefined || value === undefined) return null;
  const isShare = strength.field === "share";
  return (
    <NumberInput
      label={strength.label}
      value={isShare ? Math.round(value * 1000) / 10 : value}
      unit={isShare ? "%" : strength.unit}
      min={0}
      max={isShare ? 100 : 1000}
      step={isShare ? 0.1 : 0.01}
      onChange={(number) => set({ ...phase, [strength.field]: isShare ? number / 100 : number })}
    />
  );
}

interface NumberInputProps {
  readonly label: string;
  readonly value: number;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  onChange(value: number): void;
}

/** A typed number, corrected in the input if it is out of range. */
function NumberInput({ label, value, unit, min, max, step, onChange }: NumberInputProps) {
  const id = useId();
  return (
    <div class="exact">
      <label for={id}>{label}</label>
      <span>
        <input
          id={id}
          type="number"
          inputMode="decimal"
          min={min}
          max={max}
          step={step}
          value={value}
          onChange={({ currentTarget }) => {
            const typed = currentTarget.value === "" ? value : Number(currentTarget.value);
            const next = Math.min(max, Math.max(min, typed));
            currentTarget.value = String(next);
            onChange(next);
          }}
        />
        <span class="unit">{unit}</span>
      </span>
    </div>
  );
}
