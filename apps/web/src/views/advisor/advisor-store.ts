/** Advisor store: the answers, the open question, and the advice from the worker. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import {
  formatDuration,
  formatInteger,
  formatPercent,
  isObject,
  nearestName,
  quote,
  RedriveError,
} from "@redrive/core";
import { type Answers, type Question, type QuestionId, questions } from "@redrive/simulator";
import { createWorkerQuery } from "../../worker/query.ts";

export const answers = signal<Answers>({});
/** The answered question that the reader is changing. */
export const editing = signal<QuestionId | undefined>(undefined);
/** True if open questions use their defaults: the reader chose so, or opened a link. */
const isRestAssumed = signal(false);

/** Where focus moves after an answer. The target clears it. */
export type Focus = { readonly at: "question" | "row"; readonly id: QuestionId } | "outcome";
export const focusNext = signal<Focus | undefined>(undefined);

export const asked: ReadonlySignal<readonly Question[]> = computed(() =>
  askedQuestions(answers.value),
);

const firstOpen = computed(() => asked.value.find(({ id }) => answers.value[id] === undefined)?.id);

/** The question on screen; undefined when there is none left. */
export const currentId: ReadonlySignal<QuestionId | undefined> = computed(
  () => editing.value ?? (isRestAssumed.value ? undefined : firstOpen.value),
);

export const answeredCount: ReadonlySignal<number> = computed(
  () => asked.value.filter(({ id }) => answers.value[id] !== undefined).length,
);

/** True if the result is shown. */
export const isFinished: ReadonlySignal<boolean> = computed(
  () => isRestAssumed.value || firstOpen.value === undefined,
);

export const adviceQuery = createWorkerQuery("advice", "advise", () => ({
  answers: answers.value,
}));

export function setAnswer(id: QuestionId, value: Value): void {
  const wasEdited = editing.peek() === id;
  answers.value = { ...answers.peek(), [id]: value } as Answers;
  editing.value = undefined;
  const next = currentId.peek();
  if (wasEdited) focusNext.value = { at: "row", id };
  else focusNext.value = next === undefined ? "outcome" : { at: "question", id: next };
}

export function editAnswer(id: QuestionId): void {
  editing.value = id;
  focusNext.value = { at: "question", id };
}

export function assumeRest(): void {
  isRestAssumed.value = true;
  focusNext.value = "outcome";
}

export function setAnswers(given: Answers): void {
  answers.value = given;
  editing.value = undefined;
  isRestAssumed.value = Object.keys(given).length > 0;
  focusNext.value = undefined;
}

type Value = Question["fallback"];

/** Validates the answers of a link and formats answers as text. */
export function questionOf(id: QuestionId): Question {
  return questions.find((question) => question.id === id) as Question;
}

/** The questions to ask, given these answers. Some answers end the tree early. */
export function askedQuestions(answers: Answers): readonly Question[] {
  return questions.filter(
    ({ skipIf }) => skipIf === undefined || answers[skipIf.id] !== skipIf.value,
  );
}

/** The question without its unit, because the page lets the reader choose the unit. */
export function questionText({ text }: Question): string {
  return text.replace(", in milliseconds", "");
}

export function answerText(question: Question, value: Value): string {
  if (question.id === "outageMs") return formatDuration(Number(value));
  return question.choices.find((choice) => choice.value === value)?.label ?? String(value);
}

/** Throws `INVALID_ARGUMENT` for an unknown question or an invalid answer. */
export function checkAnswers(answers: unknown): Answers {
  if (!isObject(answers))
    throw new RedriveError("INVALID_ARGUMENT", "the answers must be an object");
  for (const [id, value] of Object.entries(answers)) {
    const question = questions.find((one) => one.id === id);
    if (question === undefined) throw unknownQuestion(id);
    const expected = expectedOf(question, value);
    if (expected !== undefined) {
      throw new RedriveError("INVALID_ARGUMENT", `${id} must be ${expected}, got ${quote(value)}`);
    }
  }
  return answers as Answers;
}

function unknownQuestion(id: string): RedriveError {
  const near = nearestName(
    id,
    questions.map((question) => question.id),
  );
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  return new RedriveError("INVALID_ARGUMENT", `unknown question ${quote(id)}${hint}`);
}

/** What the answer must be; undefined if it is valid. */
function expectedOf({ kind, choices, min = 0, max = 0 }: Question, value: unknown) {
  if (kind === "choice") {
    const values = choices.map((choice) => choice.value);
    return values.includes(value as Value) ? undefined : `one of ${values.join(", ")}`;
  }
  const isValid = Number.isInteger(value) && Number(value) >= min && Number(value) <= max;
  return isValid ? undefined : `a whole number from ${min} to ${max}`;
}

// Field labels: names and values of policy fields and guards, as in the controls of the other
// views.

interface FieldDescription {
  readonly label: string;
  readonly text: string;
}

const LABELS: Readonly<Record<string, string>> = {
  maxAttempts: "Attempts",
  jitterType: "Jitter",
  initialDelayMs: "First wait",
  maxDelayMs: "Longest wait",
  totalBudgetMs: "Total budget",
  attemptTimeoutMs: "Attempt timeout",
  connectTimeoutMs: "Connect timeout",
  requireIdempotencyKey: "Idempotency key",
  retryableStatusCodes: "Retried statuses",
  retryableGrpcCodes: "Retried gRPC codes",
  retryableErrors: "Retried errors",
  retryBudget: "Retry budget",
  breaker: "Breaker",
  hedge: "Hedge",
  idempotent: "Safe to repeat",
};

/** In the order of the controls; guards come last. */
export const fieldOrder: readonly string[] = Object.keys(LABELS);

export function describeField(name: string, value: unknown): FieldDescription {
  return { label: LABELS[name] ?? name, text: formatValue(name, value) };
}

/** For example "sets attempts to 1; removes the jitter". Empty if nothing changes. */
export function changesText(changes: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(changes);
  const labelOf = (name: string) => (LABELS[name] ?? name).replace(/^[A-Z](?=[a-z])/u, lower);
  const set = entries
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${labelOf(name)} to ${formatValue(name, value)}`);
  const removed = entries
    .filter(([, value]) => value === undefined)
    .map(([name]) => `the ${labelOf(name)}`);
  const parts = [
    set.length === 0 ? "" : `sets ${set.join(", ")}`,
    removed.length === 0 ? "" : `removes ${removed.join(", ")}`,
  ];
  return parts.filter(Boolean).join("; ");
}

function lower(text: string): string {
  return text.toLowerCase();
}

function formatValue(name: string, value: unknown): string {
  if (typeof value === "number")
    return name.endsWith("Ms") ? formatDuration(value) : formatInteger(value);
  if (typeof value === "boolean") return formatBoolean(name, value);
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.join(", ");
  if (isObject(value)) return formatGuard(name, value);
  return value === undefined ? "none" : String(value).toLowerCase();
}

function formatBoolean(name: string, value: boolean): string {
  if (name === "requireIdempotencyKey") return value ? "required" : "not required";
  return value ? "yes" : "no";
}

function formatGuard(name: string, guard: Readonly<Record<string, unknown>>): string {
  if (name === "retryBudget") return `${formatPercent(Number(guard["ratio"]))} of the calls`;
  if (name === "breaker") return `over ${formatInteger(Number(guard["minCalls"] ?? 20))} calls`;
  if (name === "hedge") return `at ${String(guard["after"])}`;
  return JSON.stringify(guard);
}
