/** Number answer: a typed number with its unit. The reader chooses the unit of a duration. */
import { useSignal } from "@preact/signals";
import { formatInteger } from "@redrive/core";
import type { Question, QuestionId } from "@redrive/simulator";
import { useId } from "preact/hooks";
import { answers, setAnswer } from "./advisor-store.ts";

const UNITS = [
  { unit: "ms", ms: 1 },
  { unit: "s", ms: 1000 },
  { unit: "min", ms: 60_000 },
  { unit: "h", ms: 3_600_000 },
] as const;

/** The units of the other numbers. */
const COUNT_UNITS: Partial<Readonly<Record<QuestionId, string>>> = {
  tiers: "layers",
  shards: "parts",
};

export function NumberAnswer({ question }: { readonly question: Question }) {
  const { id, fallback } = question;
  const value = Number(answers.value[id] ?? fallback);
  const isDuration = id === "outageMs";
  const factor = useSignal(isDuration ? factorOf(value) : 1);
  const field = useId();
  const problem = useSignal("");
  const use = (event: SubmitEvent) => {
    event.preventDefault();
    const { valueAsNumber } = (event.currentTarget as HTMLFormElement)
      .elements[0] as HTMLInputElement;
    const number = Math.round(valueAsNumber * factor.value);
    problem.value = problemOf(question, number);
    if (problem.value === "") setAnswer(id, number);
  };
  return (
    <form class="number-answer" onSubmit={use} noValidate>
      <label for={field}>or enter a number</label>
      <input
        id={field}
        class="text-field"
        type="number"
        inputMode="decimal"
        step="any"
        defaultValue={String(value / factor.peek())}
        aria-invalid={problem.value !== ""}
        aria-describedby={`${field}-problem`}
      />
      {isDuration ? (
        <UnitChoice factor={factor.value} onChange={(next) => (factor.value = next)} />
      ) : (
        <span class="unit">{COUNT_UNITS[id]}</span>
      )}
      <button type="submit" class="button">
        Use this
      </button>
      <p id={`${field}-problem`} class="problem" role="alert">
        {problem.value}
      </p>
    </form>
  );
}

/** The largest unit that divides the duration. */
function factorOf(ms: number): number {
  return UNITS.findLast((unit) => ms >= unit.ms && ms % unit.ms === 0)?.ms ?? 1;
}

function problemOf({ min = 0, max = 0, id }: Question, number: number): string {
  if (Number.isFinite(number) && number >= min && number <= max) return "";
  return id === "outageMs"
    ? "Enter a duration from 0 ms to 24 h."
    : `Enter a whole number from ${formatInteger(min)} to ${formatInteger(max)}.`;
}

interface UnitChoiceProps {
  readonly factor: number;
  onChange(factor: number): void;
}

function UnitChoice({ factor, onChange }: UnitChoiceProps) {
  return (
    <select
      class="unit-choice"
      aria-label="Unit"
      value={String(factor)}
      onChange={(event) => onChange(Number(event.currentTarget.value))}
    >
      {UNITS.map(({ unit, ms }) => (
        <option key={unit} value={String(ms)}>
          {unit}
        </option>
      ))}
    </select>
  );
}
