/**
 * Query: the worker's result for an input that follows the store, as signals for a view. It sends
 * requests only while something reads its signals. A result keeps its input: the shown result can
 * belong to an older input, and `isBusy` then says so.
 */
import { computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { sendRequest } from "./client.ts";
import type { Input, Output, RequestKind } from "./requests.ts";

/** An input and its result: a value, or the reason why there is none. */
export interface QueryResult<In, Out> {
  readonly input: In;
  readonly value?: Out;
  readonly problem?: string;
}

export interface Query<In, Out> {
  /** The newest result; the previous one stays until then. */
  readonly latest: ReadonlySignal<QueryResult<In, Out> | undefined>;
  readonly value: ReadonlySignal<Out | undefined>;
  /** Why there is no result, or empty. */
  readonly problem: ReadonlySignal<string>;
  /** True while the shown result does not belong to the current input. */
  readonly isBusy: ReadonlySignal<boolean>;
}

/** Sends a request whenever the signals that `readInput` reads change. */
export function createWorkerQuery<K extends RequestKind>(
  lane: string,
  kind: K,
  readInput: () => Input<K>,
): Query<Input<K>, Output<K>> {
  return createQuery(readInput, (input) => sendRequest(lane, kind, input));
}

/** The same for several requests; `compute` may stop once its input is no longer current. */
export function createQuery<In, Out>(
  readInput: () => In,
  compute: (input: In, isCurrent: () => boolean) => Promise<Out | undefined>,
): Query<In, Out> {
  const currentInput = computed(readInput);
  let requested: In | undefined;
  const request = () => {
    const input = currentInput.value;
    if (input === requested) return;
    requested = input;
    const isCurrent = () => requested === input;
    compute(input, isCurrent).then(
      (value) => {
        if (value !== undefined) latest.value = { input, value };
      },
      (error: Error) => {
        if (isCurrent()) latest.value = { input, problem: error.message };
      },
    );
  };
  let stop = () => {};
  const latest = signal<QueryResult<In, Out> | undefined>(undefined, {
    watched: () => {
      stop = effect(request);
    },
    unwatched: () => stop(),
  });
  return {
    latest,
    value: computed(() => latest.value?.value),
    problem: computed(() => latest.value?.problem ?? ""),
    isBusy: computed(() => latest.value?.input !== currentInput.value),
  };
}

/** Resolves once nothing is pending and the page shows the result. */
export async function whenIdle(isBusy: ReadonlySignal<boolean>): Promise<void> {
  do {
    let stop = () => {};
    await new Promise<void>((resolve) => {
      stop = effect(() => {
        if (!isBusy.value) resolve();
      });
    });
    stop();
    // A result that arrived now is drawn at the end of the turn.
    await new Promise<void>((resolve) => systemClock.endOfTurn(resolve));
  } while (isBusy.peek());
}

/** Resolves with the result for the current input. Rejects with the reason if there is none. */
export async function currentResult<In, Out>(query: Query<In, Out>): Promise<Out> {
  await whenIdle(query.isBusy);
  const value = query.value.peek();
  if (value === undefined) throw new Error(query.problem.peek());
  return value;
}
