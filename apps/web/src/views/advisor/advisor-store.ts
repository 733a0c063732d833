/** Advisor store: the answers, the open question, and the advice from the worker. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import type { Answers, Question, QuestionId } from "@redrive/simulator";
import { createWorkerQuery } from "../../worker/query.ts";
import { askedQuestions, type Value } from "./answers.ts";

export const answers = signal<Answers>({});
/** The answered question that the reader is changing. */
export const editing = signal<QuestionId | undefined>(undefined);
/** True if open questions use their defaults: the reader chose so, or opened a link. */
export const isRestAssumed = signal(false);

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
