/**
 * Policy picker: a menu of the presets and of the catalog, the document of a name, and the fields
 * for the delays and attempts of a policy.
 */
import { useSignal } from "@preact/signals";
import { type PolicyDocument, preset, presets } from "@redrive/core";
import type { SharedPolicy } from "@redrive/simulator/share";
import { useEffect } from "preact/hooks";
import { DurationField, Field, type FieldProps, Select, type SelectGroup } from "./controls.tsx";

interface PolicyPickerProps {
  readonly label?: string;
  /** The name of a preset or catalog entry, or empty. */
  readonly value: string;
  readonly emptyLabel: string;
  onPick(name: string): void;
}

const PRESETS: SelectGroup = {
  label: "Presets",
  options: Object.keys(presets).map((name) => ({ value: name, label: name })),
};

export function PolicyPicker({ label = "Preset", value, emptyLabel, onPick }: PolicyPickerProps) {
  const catalogGroups = useSignal<readonly SelectGroup[]>([]);
  useEffect(
    () =>
      onFirstInput(() => {
        void import("./catalog.ts").then(({ catalog }) => {
          const options = catalog.map(({ id, title }) => ({ value: id, label: title }));
          catalogGroups.value = [{ label: "Other libraries", options }];
        });
      }),
    [catalogGroups],
  );
  const groups = [PRESETS, ...catalogGroups.value];
  return (
    <Select label={label} value={value} emptyLabel={emptyLabel} groups={groups} onChange={onPick} />
  );
}

const INPUT_EVENTS = ["pointermove", "pointerdown", "keydown", "focusin"] as const;

/** Delays loading the catalog until the reader uses the page. */
function onFirstInput(load: () => void): () => void {
  const stop = () => {
    for (const type of INPUT_EVENTS) removeEventListener(type, first);
  };
  const first = () => {
    stop();
    load();
  };
  for (const type of INPUT_EVENTS) addEventListener(type, first);
  return stop;
}

type Limits = Partial<Pick<FieldProps, "maxTyped" | "isDisabled">>;

interface DelayFieldsProps {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  readonly maxAttempts: number;
  readonly base: Limits & { readonly min: number };
  readonly max?: Limits;
  readonly attempts: Limits & { readonly min: number };
  /** Gets only the fields that change. */
  onChange(change: PolicyDocument): void;
}

/** The first delay, the longest delay and the attempts of a policy, kept in order. */
export function DelayFields(props: DelayFieldsProps) {
  const { initialDelayMs, maxDelayMs, maxAttempts, base, max, attempts, onChange } = props;
  return (
    <>
      <DurationField
        label="Base"
        value={initialDelayMs}
        max={60_000}
        {...base}
        onInput={(value) =>
          onChange({ initialDelayMs: value, maxDelayMs: Math.max(value, maxDelayMs) })
        }
      />
      <DurationField
        label="Max"
        value={maxDelayMs}
        min={1}
        max={3_600_000}
        {...max}
        onInput={(value) =>
          onChange({ maxDelayMs: value, initialDelayMs: Math.min(value, initialDelayMs) })
        }
      />
      <Field
        label="Attempts"
        unit="calls"
        value={maxAttempts}
        max={20}
        {...attempts}
        onInput={(value) => onChange({ maxAttempts: value })}
      />
    </>
  );
}

/** Throws for an unknown name. */
export async function loadPolicy(name: string): Promise<PolicyDocument> {
  if (Object.hasOwn(presets, name)) return preset(name);
  const { catalogEntry } = await import("./catalog.ts");
  return catalogEntry(name).policy;
}

export async function loadSharedPolicy(shared: SharedPolicy): Promise<PolicyDocument> {
  return typeof shared === "string" ? await loadPolicy(shared) : shared;
}
