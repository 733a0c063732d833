/**
 * Published guards: budgets and breakers as published models define them, where core's differ. Only
 * labs use them, to reproduce published results.
 */
import type { CustomGuard } from "../worlds/caller.ts";

export interface BucketOptions {
  /** The deposit per success or per first attempt. */
  readonly ratio: number;
  /** The bucket starts full. */
  readonly size: number;
  readonly on: "success" | "first";
}

/**
 * Brooker's bucket: a retry takes 1. The published code deposits on first attempts and requires
 * more than 1; the published text deposits on success and requires 1.
 */
export function bucketGuard({ ratio, size, on }: BucketOptions): CustomGuard {
  let tokens = size;
  const deposit = () => {
    tokens = Math.min(size, tokens + ratio);
  };
  return {
    onFirst: () => on === "first" && deposit(),
    takeRetry: () => {
      if (on === "first" ? tokens <= 1 : tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    leave: (_now, _shard, ok) => ok && on === "success" && deposit(),
  };
}

/**
 * Brooker's retry breaker: allows no retries after more than a share of all first attempts so far
 * has failed.
 */
export function lifetimeGuard(share: number): CustomGuard {
  let firsts = 0;
  let failures = 0;
  return {
    onFirst: () => {
      firsts++;
    },
    takeRetry: () => failures <= share * firsts,
    leave: (_now, _shard, ok) => {
      if (!ok) failures++;
    },
  };
}

interface CountBreakerOptions {
  readonly failureRate: number;
  /** The number of latest calls in the window, and the minimum before it can open. */
  readonly window: number;
  readonly minCalls: number;
  readonly openMs: number;
  readonly perShard: boolean;
  readonly draw: () => number;
}

interface CountBreaker {
  readonly results: boolean[];
  openUntil: number;
  probing: boolean;
}

/**
 * A breaker over the last `window` calls (core's window is a time). One successful probe closes it.
 */
export function countBreaker(options: CountBreakerOptions): CustomGuard {
  const breakers = new Map<number, CountBreaker>();
  const of = (shard: number) => {
    const key = options.perShard ? shard : 0;
    const known = breakers.get(key) ?? { results: [], openUntil: -1, probing: false };
    breakers.set(key, known);
    return known;
  };
  return {
    enter: (now, shard) => enterCount(of(shard), now),
    leave: (now, shard, ok) => leaveCount(of(shard), now, ok, options),
  };
}

function enterCount(breaker: CountBreaker, now: number): boolean {
  if (breaker.openUntil < 0) return true;
  if (now < breaker.openUntil || breaker.probing) return false;
  breaker.probing = true;
  return true;
}

function leaveCount(
  breaker: CountBreaker,
  now: number,
  ok: boolean,
  options: CountBreakerOptions,
): void {
  if (breaker.openUntil >= 0) {
    // Ignores calls that began before it opened.
    if (!breaker.probing) return;
    breaker.probing = false;
    if (ok) breaker.openUntil = -1;
    else breaker.openUntil = now + options.openMs * (0.8 + 0.4 * options.draw());
    return;
  }
  const { results } = breaker;
  results.push(ok);
  if (results.length > options.window) results.shift();
  const failures = results.filter((one) => !one).length;
  if (results.length < options.minCalls || failures < options.failureRate * results.length) return;
  results.length = 0;
  breaker.openUntil = now + options.openMs * (0.8 + 0.4 * options.draw());
}
