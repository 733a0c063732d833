/**
 * `redrive/testing`: tools for testing code that retries: a clock that the test advances, seeded
 * randomness, and functions that fail by a script. No test has to sleep.
 */
import { assertRange, type Clock } from "@redrive/core";
import type { AttemptContext, Operation } from "./call/options.ts";

export { type Random, seededRandom, type VirtualClock, virtualClock } from "@redrive/core";

/** One step of a script: throw or return, after an optional delay. */
export type Step<T> =
  | { readonly throws: unknown; readonly afterMs?: number | undefined }
  | { readonly returns: T; readonly afterMs?: number | undefined };

export interface Flaky<T> {
  /** The operation to wrap. */
  readonly fn: Operation<T>;
  /** When each call started, in epoch ms of the clock. */
  readonly calledAt: readonly number[];
  /** The context of each call. */
  readonly contexts: readonly AttemptContext[];
}

/** An operation that follows a script, one step per call. The last step is repeated. */
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

/** One response of a scripted server. Status 0 means a refused connection. */
export interface FetchStep {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  readonly afterMs?: number | undefined;
}

export interface FlakyFetch {
  /** For the `fetch` option of `createFetch`. */
  readonly fetch: typeof fetch;
  readonly requests: readonly Request[];
  readonly calledAt: readonly number[];
}

/** A fetch that follows a script, one step per request. The last step is repeated. */
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
    if (step.status === 0) throw connectionRefused();
    return new Response(step.body ?? null, { status: step.status, headers: step.headers ?? {} });
  };
  return { fetch: scripted, requests, calledAt };
}

/** The error that Node's fetch throws. */
function connectionRefused(): TypeError {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  return new TypeError("fetch failed", { cause });
}
