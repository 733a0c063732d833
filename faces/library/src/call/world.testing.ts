/**
 * World: what most tests of the library start from: time moved by hand, chance from a seed, and a
 * list of what was told.
 */
import { type Random, seededRandom, type VirtualClock, virtualClock } from "@redrive/core";
import type { CallEvent } from "./call-event.ts";

export interface World {
  readonly clock: VirtualClock;
  readonly random: Random;
  readonly events: CallEvent[];
  readonly onEvent: (event: CallEvent) => void;
}

/** Any instant will do, as long as it is not 0. */
export const START_AT = 1_700_000_000_000;

export function world(seed: number | string = 1): World {
  const events: CallEvent[] = [];
  return {
    clock: virtualClock(START_AT),
    random: seededRandom(seed),
    events,
    onEvent: (event) => void events.push(event),
  };
}

/** What a promise rejects with; a promise that resolves is a failed test. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`expected a rejection, got ${String(value)}`);
}

/** A promise that settles only when told to. */
export function deferred<T = void>() {
  let resolve: (value: T) => void = () => undefined;
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}

/** What the host reports as unhandled rejections while `fn` runs, and what the console is told. */
export async function reportsOf(fn: () => Promise<void>) {
  const known = process.listeners("unhandledRejection");
  const unhandled: unknown[] = [];
  const written: unknown[] = [];
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => unhandled.push(error));
  const { error: write } = console;
  console.error = (...told: unknown[]) => void written.push(told.at(-1));
  try {
    await fn();
    // Node reports a rejection once the microtasks of its turn are done.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    console.error = write;
    process.removeAllListeners("unhandledRejection");
    for (const listener of known) process.on("unhandledRejection", listener);
  }
  return { unhandled, written };
}

/** An error with a status, as HTTP clients throw it. */
export function statusError(status: number): Error & { readonly status: number } {
  return Object.assign(new Error(`status ${status}`), { status });
}

/** A function that never answers by itself, but does end when its signal is aborted. */
export function untilAborted({ signal }: { readonly signal: AbortSignal }): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
