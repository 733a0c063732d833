/**
 * Answer: what the worker says about a question that follows the store, as signals for the view. It
 * asks for as long as somebody looks, and an answer keeps its question: what is in sight may be the
 * answer to an older one, and then says so.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { ask } from "./client.ts";
import type { Input, Kind, Output } from "./requests.ts";

/** What was asked, and what came of it: a value, or why there is none. */
export interface Answered<Q, T> {
  readonly question: Q;
  readonly value?: T;
  readonly problem?: string;
}

export interface Answer<Q, T> {
  /** The newest answer; the one before stays until it comes. */
  readonly latest: ReadonlySignal<Answered<Q, T> | undefined>;
  readonly value: ReadonlySignal<T | undefined>;
  /** Why there is no answer, or empty. */
  readonly problem: ReadonlySignal<string>;
  /** The answer to the present question is still to come: what is in sight belongs to another. */
  readonly isBusy: ReadonlySignal<boolean>;
}

/** Asks the worker whenever the signals that `question` reads change. */
export function answerTo<K extends Kind>(
  lane: string,
  kind: K,
  question: () => Input<K>,
): Answer<Input<K>, Output<K>> {
  return answerBy(question, (input) => ask(lane, kind, input));
}

/** The same for what takes several requests; `find` may give up once its question is the past. */
export function answerBy<Q, T>(
  question: () => Q,
  find: (question: Q, isPresent: () => boolean) => Promise<T | undefined>,
): Answer<Q, T> {
  const present = computed(question);
  let asked: Q | undefined;
  const askAnew = () => {
    const now = present.value;
    if (now === asked) return;
    asked = now;
    const isPresent = () => asked === now;
    find(now, isPresent).then(
      (value) => {
        if (value !== undefined) latest.value = { question: now, value };
      },
      (error: Error) => {
        if (isPresent()) latest.value = { question: now, problem: error.message };
      },
    );
  };
  let stop = () => {};
  const latest = signal<Answered<Q, T> | undefined>(undefined, {
    watched: () => {
      stop = effect(askAnew);
    },
    unwatched: () => stop(),
  });
  return {
    latest,
    value: computed(() => latest.value?.value),
    problem: computed(() => latest.value?.problem ?? ""),
    isBusy: computed(() => latest.value?.question !== present.value),
  };
}

/** Resolves once nothing is left to be answered, and the page shows it. */
export async function whenSettled(isBusy: ReadonlySignal<boolean>): Promise<void> {
  do {
    let stop = () => {};
    await new Promise<void>((resolve) => {
      stop = effect(() => {
        if (!isBusy.value) resolve();
      });
    });
    stop();
    // What came in this turn is drawn when it ends.
    await new Promise<void>((resolve) => systemClock.endOfTurn(resolve));
  } while (isBusy.peek());
}

/** The answer to the present question, once it is there. Rejects with why there is none. */
export async function presentAnswer<Q, T>(answer: Answer<Q, T>): Promise<T> {
  await whenSettled(answer.isBusy);
  const value = answer.value.peek();
  if (value === undefined) throw new Error(answer.problem.peek());
  return value;
}
