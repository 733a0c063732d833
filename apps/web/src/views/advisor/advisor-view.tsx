/** Advisor view: a decision tree as questions that lead to a policy, with reasons and code. */
import { useSignal } from "@preact/signals";
import { formatInteger } from "@redrive/core";
import type { Question, QuestionId } from "@redrive/simulator";
import { adviceCode } from "@redrive/simulator/export";
import type { RefObject } from "preact";
import { useId, useRef } from "preact/hooks";
import { exportMenu } from "../../components/export-menu.ts";
import { Card, Notice } from "../../components/frames.tsx";
import { currentResult } from "../../worker/query.ts";
import type { View } from "../view.ts";
import {
  adviceQuery,
  answeredCount,
  answers,
  answerText,
  asked,
  assumeRest,
  changesText,
  checkAnswers,
  currentId,
  describeField,
  editAnswer,
  editing,
  fieldOrder,
  isFinished,
  questionText,
  setAnswer,
  setAnswers,
} from "./advisor-store.ts";
import { Outcome, useFocus } from "./outcome.tsx";
import "./advisor.css";

function Stage() {
  return (
    <>
      <Conversation />
      {isFinished.value && <Outcome />}
    </>
  );
}

/** The same object that `redrive advise --json` prints. */
async function adviceJson(): Promise<object> {
  const { advice } = await currentResult(adviceQuery);
  return { answers: answers.peek(), ...advice, code: adviceCode(advice) };
}

async function saveCode(): Promise<void> {
  const { advice } = await currentResult(adviceQuery);
  const files = await import("../../components/export-files.ts");
  const { destination } = adviceCode(advice);
  files.downloadText("redrive-advice.ts", "text/plain", `${destination}\n`);
}

export const advisorView: View<"advisor"> = {
  id: "advisor",
  explanation:
    "A few questions about the call lead to a policy; you see what each answer sets, and you can change it at any time. The result has the reasons, the share of calls that outlast your outage, the lint findings and the code.",
  Controls: PolicyPreview,
  Stage,
  state: () => ({ view: "advisor", answers: answers.value }),
  open({ answers: given }) {
    const checked = checkAnswers(given);
    return () => setAnswers(checked);
  },
  reset: () => setAnswers({}),
  exports: () => [
    ...exportMenu({ name: "redrive-advice", json: adviceJson }),
    { label: "Code", hint: "TypeScript for Redrive", run: saveCode },
  ],
};

// Conversation: the questions and answers so far, each with a Change button, and the next question.

function Conversation() {
  const rows = asked.value.filter(
    ({ id }) => id === currentId.value || answers.value[id] !== undefined || isAssumed(id),
  );
  return (
    <ol class="talk">
      {rows.map((question) => (
        <li key={question.id}>
          {question.id === currentId.value ? (
            <QuestionCard question={question} />
          ) : (
            <AnswerRow question={question} />
          )}
        </li>
      ))}
    </ol>
  );
}

/** At the end, unanswered questions are listed with their defaults. */
function isAssumed(id: Question["id"]): boolean {
  return currentId.value === undefined && answers.value[id] === undefined;
}

function AnswerRow({ question }: { readonly question: Question }) {
  const button = useRef<HTMLButtonElement>(null);
  const { id, fallback } = question;
  useFocus(button, (focus) => focus !== "outcome" && focus.at === "row" && focus.id === id);
  const given = answers.value[id];
  const sets = given === undefined ? "" : changesOf(id);
  return (
    <div class="answer-row">
      <p class="asked">{questionText(question)}</p>
      <p class={given === undefined ? "answer default" : "answer"}>
        {answerText(question, given ?? fallback)}
        {given === undefined && " (default)"}
      </p>
      <p class={sets === NO_CHANGE ? "sets faint" : "sets"} aria-busy={adviceQuery.isBusy.value}>
        {sets}
      </p>
      <button
        ref={button}
        type="button"
        class="button quiet small"
        aria-label={`Change: ${questionText(question)}`}
        onClick={() => editAnswer(id)}
      >
        {given === undefined ? "Answer" : "Change"}
      </button>
    </div>
  );
}

const NO_CHANGE = "changes nothing";

/** Empty until the worker responds. */
function changesOf(id: Question["id"]): string {
  const step = adviceQuery.value.value?.steps.find((one) => one.id === id);
  if (step === undefined) return "";
  return changesText(step.changes) || NO_CHANGE;
}

/** The current question with buttons or a number field. */
function QuestionCard({ question }: { readonly question: Question }) {
  const first = useRef<HTMLButtonElement>(null);
  const { id, help, kind } = question;
  useFocus(first, (focus) => focus !== "outcome" && focus.at === "question" && focus.id === id);
  const position = asked.value.findIndex((one) => one.id === id) + 1;
  return (
    <fieldset class="card question">
      <legend>
        <span class="question-position">
          Question {position} of {asked.value.length}
        </span>{" "}
        {questionText(question)}
      </legend>
      <p class="faint">{help}</p>
      <Choices question={question} first={first} />
      {kind === "number" && <NumberAnswer key={id} question={question} />}
      {editing.value === undefined && (
        <button type="button" class="button quiet use-defaults" onClick={assumeRest}>
          Use the defaults from here on
        </button>
      )}
    </fieldset>
  );
}

interface ChoicesProps {
  readonly question: Question;
  readonly first: RefObject<HTMLButtonElement | null>;
}

function Choices({ question, first }: ChoicesProps) {
  const { id, choices, fallback } = question;
  return (
    <div class="choices">
      {choices.map(({ value, label }, index) => (
        <button
          key={label}
          ref={index === 0 ? first : null}
          type="button"
          class="button choice"
          aria-pressed={answers.value[id] === value}
          onClick={() => setAnswer(id, value)}
        >
          {label}
          {value === fallback && <small>default</small>}
        </button>
      ))}
    </div>
  );
}

// Number answer: a typed number with its unit. The reader chooses the unit of a duration.

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

function NumberAnswer({ question }: { readonly question: Question }) {
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

/** The policy that the answers give so far. Defaults are dimmed. */
function PolicyPreview() {
  const now = adviceQuery.value.value;
  const count = answeredCount.value;
  const total = asked.value.length;
  return (
    <Card title="Policy so far" aside={`${count} of ${total} answered`}>
      {adviceQuery.problem.value !== "" && <Notice tone="bad">{adviceQuery.problem.value}</Notice>}
      {count === 0 && (
        <p class="faint small-text">
          Dimmed values are defaults. Each answer can change some of them.
        </p>
      )}
      <dl class="so-far" aria-live="polite" aria-busy={adviceQuery.isBusy.value}>
        {namesIn(now?.fields ?? {}).map((name) => {
          const { label, text } = describeField(name, now?.fields[name]);
          return (
            <div key={name} class={stateOf(name)}>
              <dt>{label}</dt>
              <dd>{text}</dd>
            </div>
          );
        })}
      </dl>
    </Card>
  );
}

/** Known fields first, in the order of the controls of the other views. */
function namesIn(fields: Readonly<Record<string, unknown>>): readonly string[] {
  const names = Object.keys(fields);
  const known = fieldOrder.filter((name) => names.includes(name));
  return [...known, ...names.filter((name) => !fieldOrder.includes(name))];
}

function stateOf(name: string): string {
  const steps = adviceQuery.value.value?.steps ?? [];
  const isAll = answeredCount.value === asked.value.length;
  const last = steps.at(-1);
  if (!isAll && last !== undefined && name in last.changes) return "set new";
  return isAll || steps.some(({ changes }) => name in changes) ? "set" : "usual";
}
