/**
 * `redrive/testing`: what tests of code that retries need: time moved by hand, chance from a seed,
 * and functions that fail by a script. No test has to sleep.
 */
import { assertRange, type Clock } from "@redrive/core";
import type { AttemptContext, Attempted } from "./options.ts";

export { type Random, seededRandom, type VirtualClock, virtualClock } from "@redrive/core";

/** One step of a script: fail so, answer so, or take so long first. */
export type Step<T> =
  | { readonly throws: unknown; readonly afterMs?: number }
  | { readonly returns: T; readonly afterMs?: number };

export interface Flaky<T> {
  /** The function to wrap. */
  readonly fn: Attempted<T>;
  /** When each call began, in epoch ms of the clock. */
  readonly calledAt: readonly number[];
  /** What each call was told. */
  readonly contexts: readonly AttemptContext[];
}

/** A function that follows a script, one step a call; the last step is repeated. */
export function flaky<T>(clock: Clock, steps: readonly Step<T>[]): Flaky<T> {
  assertRange("steps.length", steps.length, 1, 1_000_000);
  const calledAt: number[] = [];
  const contexts: AttemptContext[] = [];
  const fn = async (context: AttemptContext): Promise<T> => {
    const step = steps[Math.min(calledAt.length, steps.length - 1)] as Step<T>;
    calledAt.push(clock.now());
    contexts.push(context);
    if (step.afterMs !== undefined) await clock.sleep(step.afterMs, context.signal);
    if ("throws" in step) throw step.throws;
    return step.returns;
  };
  return { fn, calledAt, contexts };
}

/** One answer of a scripted server. A status of 0 is a refused connection. */
export interface FetchStep {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly afterMs?: number;
}

export interface FlakyFetch {
  /** For the `fetch` option of `createFetch`. */
  readonly fetch: typeof fetch;
  readonly requests: readonly Request[];
  readonly calledAt: readonly number[];
}

/** A fetch that follows a script, one step a request; the last step is repeated. */
export function flakyFetch(clock: Clock, steps: readonly FetchStep[]): FlakyFetch {
  assertRange("steps.length", steps.length, 1, 1_000_000);
  const requests: Request[] = [];
  const calledAt: number[] = [];
  const scripted: typeof fetch = async (input, init) => {
    const step = steps[Math.min(requests.length, steps.length - 1)] as FetchStep;
    const request = new Request(input, init);
    requests.push(request);
    calledAt.push(clock.now());
    if (step.afterMs !== undefined) await clock.sleep(step.afterMs, request.signal);
    if (step.status === 0) throw refused();
    return new Response(step.body ?? null, { status: step.status, headers: step.headers ?? {} });
  };
  return { fetch: scripted, requests, calledAt };
}

/** As Node's fetch puts it. */
function refused(): TypeError {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  return new TypeError("fetch failed", { cause });
}
