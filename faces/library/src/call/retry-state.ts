/**
 * Retry state: what a call remembers once an attempt has failed. A call that succeeds at once
 * creates none.
 */
import type { AttemptRecord, Random } from "@redrive/core";
import type { AttemptResult } from "./options.ts";

export interface RetryState<T> {
  readonly records: AttemptRecord[];
  /** The call's own random stream. */
  readonly random: Random;
  previousDelayMs: number;
  /** How the latest failed attempt ended. */
  lastResult: AttemptResult<T> | undefined;
  /** Set by a destination: a call renews credentials at most once. */
  hasReauthenticated?: boolean;
  /** Set by a destination: the next attempt uses new credentials. */
  hasNewCredentials?: boolean;
  /** Set by a destination: the next attempt follows a throttling response. */
  isThrottled?: boolean;
}

/** Counts the calls without a key per source of randomness: the number names the call's stream. */
const callCounts = new WeakMap<Random, number>();

/** Each call draws from its own stream, which is named by the call's key. */
export function createRetryState<T>(random: Random, key: string | undefined): RetryState<T> {
  return {
    records: [],
    random: random.fork(key ?? nextStreamName(random)),
    previousDelayMs: 0,
    lastResult: undefined,
  };
}

function nextStreamName(random: Random): string {
  const count = (callCounts.get(random) ?? 0) + 1;
  callCounts.set(random, count);
  return String(count);
}
