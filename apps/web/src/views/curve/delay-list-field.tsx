/** Delay list field: a typed list of waits, and the jitter of each wait. */
import { useSignal } from "@preact/signals";
import { type JitterType, type PolicyDocument, parseDuration, resolvePolicy } from "@redrive/core";
import { useId } from "preact/hooks";
import { Problem, Segmented } from "../../components/controls.tsx";

interface DelayListFieldProps {
  readonly document: PolicyDocument;
  onChange(next: PolicyDocument): void;
}

type ListJitter = Exclude<JitterType, "DECORRELATED">;

const JITTERS: readonly { readonly value: ListJitter; readonly label: string }[] = [
  { value: "NONE", label: "none" },
  { value: "FULL", label: "full" },
  { value: "EQUAL", label: "equal" },
  { value: "PROPORTIONAL", label: "±" },
];

export function DelayListField({ document, onChange }: DelayListFieldProps) {
  const id = useId();
  const problem = useSignal("");
  const read = (text: string) => {
    const delaysMs = parseDelays(text);
    problem.value = typeof delaysMs === "string" ? delaysMs : "";
    if (typeof delaysMs !== "string") onChange({ ...document, delaysMs });
  };
  return (
    <>
      <div class="select">
        <label for={id}>List of waits</label>
        <textarea
          id={id}
          class="text-area"
          rows={3}
          spellcheck={false}
          value={formatDelays(document.delaysMs ?? [])}
          onChange={(event) => read(event.currentTarget.value)}
        />
        <Problem message={problem.value} />
      </div>
      <Segmented
        label="Jitter of each wait"
        value={resolvePolicy(document).jitterType as ListJitter}
        options={JITTERS}
        onChange={(jitterType) => onChange({ ...document, jitterType })}
      />
    </>
  );
}

const MAX_ENTRIES = 999;
const MAX_MS = 30 * 86_400_000;

/** The waits, or an error message. A wait has a unit, as on the command line. */
export function parseDelays(text: string): readonly number[] | string {
  const entries = text.split(/[\s,;]+/u).filter((entry) => entry !== "");
  if (entries.length === 0) return "The list is empty: enter waits such as 100ms, 2s, 5m.";
  if (entries.length > MAX_ENTRIES)
    return `Enter at most ${MAX_ENTRIES} waits, not ${entries.length}.`;
  const bare = entries.find((entry) => /^[\d.]+$/u.test(entry));
  if (bare !== undefined) return `“${bare}” has no unit: did you mean ${bare}ms or ${bare}s?`;
  const delays = entries.map(parseDuration);
  const bad = delays.findIndex((delay) => delay === undefined || delay > MAX_MS);
  if (bad >= 0)
    return `“${entries[bad]}” is not a wait: enter for example 100ms, 2s, 5m or 1h, up to 30d.`;
  return delays as readonly number[];
}

const UNITS = [
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
] as const;

/** Uses the largest unit that divides each wait. */
export function formatDelays(delays: readonly number[]): string {
  return delays
    .map((ms) => {
      const [unit, unitMs] = UNITS.find(([, each]) => ms > 0 && ms % each === 0) ?? ["ms", 1];
      return `${ms / unitMs}${unit}`;
    })
    .join(", ");
}
