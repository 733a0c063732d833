/**
 * Story: what is remembered of a call once an attempt has failed, and the error that tells it. A
 * call that succeeds at once needs none of it.
 */
import {
  type AttemptRecord,
  type Decision,
  type Outcome,
  type Random,
  RedriveError,
  type StopReason,
  type Verdict,
} from "@redrive/core";
import type { Ending } from "./options.ts";

export interface Story<T> {
  readonly records: AttemptRecord[];
  /** The call's own stream of chance. */
  readonly random: Random;
  previousDelayMs: number;
  /** How the latest attempt that failed ended. */
  lastEnding: Ending<T> | undefined;
  /** Credentials are renewed once per call. */
  hasRenewed: boolean;
  /** The next attempt uses new credentials. */
  isRenewed: boolean;
  /** The next attempt follows a throttling response. */
  isThrottled: boolean;
}

/** Without a key, the calls that share one source of chance are told apart by their number. */
const callCounts = new WeakMap<Random, number>();

/** Each call draws from a stream of its own, named by its key. */
export function newStory<T>(random: Random, key: string | undefined): Story<T> {
  return {
    records: [],
    random: random.fork(key ?? nextName(random)),
    previousDelayMs: 0,
    lastEnding: undefined,
    hasRenewed: false,
    isRenewed: false,
    isThrottled: false,
  };
}

function nextName(random: Random): string {
  const count = (callCounts.get(random) ?? 0) + 1;
  callCounts.set(random, count);
  return String(count);
}

/** What a failed attempt came to, as it is told to people and events alike. */
export function recordOf<T>(
  ending: Ending<T>,
  outcome: Outcome,
  verdict: Verdict,
): Pick<AttemptRecord, "error" | "status" | "requestId"> & { readonly verdict: Verdict } {
  const status = "status" in outcome ? outcome.status : undefined;
  const { requestId } = outcome;
  return {
    verdict,
    ...("error" in ending && { error: ending.error }),
    ...(status !== undefined && { status }),
    ...(requestId !== undefined && { requestId }),
  };
}

/** How long the call waits now; undefined if this was its end. */
export function waitMsOf(decision: Decision, now: number): number | undefined {
  if (decision.kind === "stop") return undefined;
  return decision.kind === "hold" ? decision.until - now : decision.delayMs;
}

/** Ends that are ours to tell, though nothing was retried. */
const OWN_REASONS: readonly StopReason[] = ["circuit-open", "retry-budget", "overload"];

/** True if what the attempt threw says it all: nothing was retried, and the end is not ours. */
export function isOwnError<T>(attempts: number, reason: StopReason, ending: Ending<T>): boolean {
  if (!("error" in ending)) return false;
  if (reason === "aborted" || ending.isStop) return true;
  const { error } = ending;
  const isTimeout = error instanceof RedriveError && error.code === "ATTEMPT_TIMEOUT";
  return attempts === 1 && !isTimeout && !OWN_REASONS.includes(reason);
}

/** The caller's own error when nothing was retried, else one that tells the whole story. */
export function errorOf<T>(
  name: string | undefined,
  attempts: number,
  reason: StopReason,
  ending: Ending<T>,
  records: readonly AttemptRecord[],
): unknown {
  const cause = "error" in ending ? ending.error : undefined;
  if (isOwnError(attempts, reason, ending)) return cause;
  const where = name === undefined ? "" : `${name}: `;
  const count = `${attempts} attempt${attempts === 1 ? "" : "s"}`;
  const told = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : "";
  const message = `${where}gave up after ${count} (${reason})${told}`;
  return new RedriveError("GAVE_UP", message, { reason, attempts: records, cause });
}
