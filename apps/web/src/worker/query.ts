/**
 * Answer: what the worker says about a question that follows the store, as signals for the view. It
 * asks for as long as somebody looks, and an answer keeps its question: what is in sight may be the
 * answer to an older one, and then says so.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { sendRequest } from "./client.ts";
import type { Input, Output, RequestKind } from "./requests.ts";

/** What was asked, and what came of it: a value, or why there is none. */
export interface QueryResult<Q, T> {
  readonly input: Q;
  readonly value?: T;
  readonly problem?: string;
}

export interface Query<Q, T> {
  /** The newest answer; the one before stays until it comes. */
  readonly latest: ReadonlySignal<QueryResult<Q, T> | undefined>;
  readonly value: ReadonlySignal<T | undefined>;
  /** Why there is no answer, or empty. */
  readonly problem: ReadonlySignal<string>;
  /** The answer to the present question is still to come: what is in sight belongs to another. */
  readonly isBusy: ReadonlySignal<boolean>;
}

/** Asks the worker whenever the signals that `question` reads change. */
export function createWorkerQuery<K extends RequestKind>(
  lane: string,
  kind: K,
  question: () => Input<K>,
): Query<Input<K>, Output<K>> {
  return createQuery(question, (input) => sendRequest(lane, kind, input));
}

/** The same for what takes several requests; `find` may give up once its question is the past. */
export function createQuery<Q, T>(
  question: () => Q,
  find: (question: Q, isPresent: () => boolean) => Promise<T | undefined>,
): Query<Q, T> {
  const present = computed(question);
  let asked: Q | undefined;
  const askAnew = () => {
    const now = present.value;
    if (now === asked) return;
    asked = now;
    const isPresent = () => asked === now;
    find(now, isPresent).then(
      (value) => {
        if (value !== undefined) latest.value = { input: now, value };
      },
      (error: Error) => {
        if (isPresent()) latest.value = { input: now, problem: error.message };
      },
    );
  };
  let stop = () => {};
  const latest = signal<QueryResult<Q, T> | undefined>(undefined, {
    watched: () => {
      stop = effect(askAnew);
    },
    unwatched: () => stop(),
  });
  return {
    latest,
    value: computed(() => latest.value?.value),
    problem: computed(() => latest.value?.problem ?? ""),
    isBusy: computed(() => latest.value?.input !== present.value),
  };
}

/** Resolves once nothing is left to be answered, and the page shows it. */
export async function whenIdle(isBusy: ReadonlySignal<boolean>): Promise<void> {
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
export async function currentResult<Q, T>(answer: Query<Q, T>): Promise<T> {
  await whenIdle(answer.isBusy);
  const value = answer.value.peek();
  if (value === undefined) throw new Error(answer.problem.peek());
  return value;
}
