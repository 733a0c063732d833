/**
 * Phase track: adds, moves, resizes and removes faults on the time axis by mouse, touch or keyboard.
 * Each phase has three sliders: the bar, its start and its end.
 */
import { formatDuration } from "@redrive/core";
import type { PhaseDocument, PhaseKind } from "@redrive/simulator";
import { useId, useRef } from "preact/hooks";
import { Segmented, Select } from "../../components/controls.tsx";
import {
  kindInfo,
  MAX_PHASES,
  merged,
  moveEnd,
  movePhase,
  moveStart,
  newPhase,
  phaseKinds,
  phaseName,
  phaseSentence,
  rowsOf,
  stepFor,
  strengthOf,
  withKind,
} from "./document.ts";
import { endMs, holdEnd, LEFT, RIGHT, releaseEnd } from "./run-chart.tsx";
import { chosenPhase, editPhases, phases } from "./system-store.ts";

const ROW = 34;

export function PhaseTrack() {
  const list = phases.value;
  const rows = rowsOf(list);
  const track = useRef<HTMLDivElement>(null);
  const height = ROW * Math.max(1, ...rows.map((row) => row + 1));
  return (
    <fieldset class="track-frame">
      <legend class="visually-hidden">Faults over time</legend>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a mouse shortcut; the buttons below do the same. */}
      <div
        ref={track}
        class="track"
        style={{ height: `${height}px`, marginInline: `${LEFT}px ${RIGHT}px` }}
        onDblClick={(event) => addAt("OUTAGE", timeAt(track.current, event.clientX))}
      >
        {list.length === 0 && <p class="track-empty">no faults; add one below</p>}
        {list.map((phase, index) => (
          <Segment
            key={index}
            phase={phase}
            index={index}
            row={rows[index] ?? 0}
            track={() => track.current}
          />
        ))}
      </div>
      <div class="track-add">
        <span class="faint">Add</span>
        {phaseKinds.map(({ kind, label, hint }) => (
          <button
            key={kind}
            type="button"
            class="button small"
            title={hint}
            disabled={list.length >= MAX_PHASES}
            onClick={() => addAt(kind)}
          >
            {label}
          </button>
        ))}
      </div>
    </fieldset>
  );
}

function addAt(kind: PhaseKind, atMs?: number): void {
  if (phases.value.length >= MAX_PHASES) return;
  editPhases((list) => [...list, newPhase(kind, list, endMs.peek(), atMs)]);
  chosenPhase.value = phases.value.length - 1;
}

function timeAt(track: HTMLElement | null, clientX: number): number {
  const box = track?.getBoundingClientRect();
  if (box === undefined || box.width === 0) return 0;
  return ((clientX - box.left) / box.width) * endMs.peek();
}

type Grip = "bar" | "start" | "end";

/** How a grip changes a phase when it moves to `ms`. */
const MOVES: Readonly<
  Record<Grip, (phase: PhaseDocument, ms: number, endMs: number) => PhaseDocument>
> = { bar: movePhase, start: moveStart, end: moveEnd };

function change(index: number, next: (phase: PhaseDocument) => PhaseDocument): void {
  editPhases((list) => list.map((phase, other) => (other === index ? next(phase) : phase)));
}

function removePhase(index: number): void {
  editPhases((list) => list.filter((_, other) => other !== index));
  chosenPhase.value = undefined;
}

interface SegmentProps {
  readonly phase: PhaseDocument;
  readonly index: number;
  readonly row: number;
  readonly track: () => HTMLElement | null;
}

function Segment({ phase, index, row, track }: SegmentProps) {
  const share = (ms: number) => `${(Math.min(ms, endMs.value) / endMs.value) * 100}%`;
  const left = share(phase.atMs);
  const right = share(phase.atMs + phase.forMs);
  const top = `${row * ROW + 3}px`;
  const isChosen = chosenPhase.value === index;
  const grip = { phase, index, track };
  return (
    <div class={isChosen ? "segment chosen" : "segment"}>
      <GripHandle
        {...grip}
        grip="bar"
        class="segment-body"
        style={{ top, insetInlineStart: left, width: `calc(${right} - ${left})` }}
      >
        <span>{phaseName(phase)}</span>
      </GripHandle>
      <GripHandle {...grip} grip="start" class="segment-edge" style={{ top, left }} />
      <GripHandle {...grip} grip="end" class="segment-edge" style={{ top, left: right }} />
    </div>
  );
}

interface GripProps {
  readonly phase: PhaseDocument;
  readonly index: number;
  readonly grip: Grip;
  readonly class: string;
  readonly style: Readonly<Record<string, string>>;
  readonly track: () => HTMLElement | null;
  readonly children?: preact.ComponentChildren;
}

const GRIP_LABELS: Readonly<Record<Grip, string>> = { bar: "move", start: "start", end: "end" };

function GripHandle({ phase, index, grip, class: name, style, track, children }: GripProps) {
  /** The distance of the pointer from the grip's position, constant during a drag. */
  const offset = useRef<number | undefined>(undefined);
  const at = positionOf(phase, grip);
  const begin = (event: PointerEvent) => {
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    offset.current = timeAt(track(), event.clientX) - at;
    chosenPhase.value = index;
    holdEnd();
  };
  const drag = (event: PointerEvent) => {
    if (offset.current === undefined) return;
    const ms = timeAt(track(), event.clientX) - offset.current;
    change(index, (one) => MOVES[grip](one, ms, endMs.peek()));
  };
  const stop = () => {
    offset.current = undefined;
    releaseEnd();
  };
  return (
    <div
      role="slider"
      tabIndex={0}
      class={name}
      style={style}
      aria-label={`${phaseName(phase)}: ${GRIP_LABELS[grip]}`}
      aria-valuemin={0}
      aria-valuemax={Math.round(endMs.value)}
      aria-valuenow={Math.round(at)}
      aria-valuetext={grip === "bar" ? phaseSentence(phase) : formatDuration(at)}
      title={phaseSentence(phase)}
      onPointerDown={begin}
      onPointerMove={drag}
      onPointerUp={stop}
      onPointerCancel={stop}
      onFocus={() => {
        chosenPhase.value = index;
      }}
      onKeyDown={(event) => onKey(event, index, grip)}
    >
      {children}
    </div>
  );
}

function positionOf({ atMs, forMs }: PhaseDocument, grip: Grip): number {
  return grip === "end" ? atMs + forMs : atMs;
}

const STEPS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
};

function onKey(event: KeyboardEvent, index: number, grip: Grip): void {
  const steps = STEPS[event.key];
  if (steps !== undefined) {
    event.preventDefault();
    const byMs = steps * stepFor(endMs.peek());
    change(index, (one) => MOVES[grip](one, positionOf(one, grip) + byMs, endMs.peek()));
    return;
  }
  if (event.key === "Delete" || event.key === "Backspace") {
    event.preventDefault();
    removePhase(index);
  }
}

// Phase form: the exact numbers of the phase selected on the track.

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
