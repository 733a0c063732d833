/**
 * Token bucket: calls that fail at the same instant and share one bucket of retries, as in the AWS SDKs.
 * A retry takes from the bucket, in the order of time; a call that gets nothing gives up. Nothing refills
 * the bucket while all calls fail.
 */
import type { Schedule } from "@redrive/simulator";

/** The retries of the full bucket of an AWS SDK: 500 tokens, 5 for each retry. */
export const BUCKET_RETRIES = 100;

export interface BucketRun {
  /** When each call made its last attempt, ms after the first. */
  readonly sums: readonly number[];
  /** The retries in the fullest window. */
  readonly peak: number;
  /** The calls that made an attempt after the outage. */
  readonly outlasting: number;
}

export function runBucket(
  schedules: readonly Pick<Schedule, "waits">[],
  windowMs: number,
  outageMs: number,
): BucketRun {
  const sums = schedules.map(() => 0);
  const perWindow = new Map<number, number>();
  const outlasting = new Set<number>();
  for (const { call, sumMs } of allowedRetries(schedules, outageMs)) {
    sums[call] = sumMs;
    const window = Math.floor(sumMs / windowMs);
    perWindow.set(window, (perWindow.get(window) ?? 0) + 1);
    if (sumMs >= outageMs) outlasting.add(call);
  }
  return {
    sums,
    peak: Math.max(0, ...perWindow.values()),
    outlasting: outageMs === 0 ? schedules.length : outlasting.size,
  };
}

interface Retry {
  readonly call: number;
  readonly sumMs: number;
}

function allowedRetries(
  schedules: readonly Pick<Schedule, "waits">[],
  outageMs: number,
): readonly Retry[] {
  const retries = schedules
    .flatMap(({ waits }, call) => waits.map(({ sumMs }) => ({ call, sumMs })))
    .sort((a, b) => a.sumMs - b.sumMs);
  const ended = new Set<number>();
  const allowed: Retry[] = [];
  for (const retry of retries) {
    if (ended.has(retry.call)) continue;
    const isEmpty = allowed.length === BUCKET_RETRIES;
    if (!isEmpty) allowed.push(retry);
    // The call gives up, or it succeeds because the outage is over.
    if (isEmpty || retry.sumMs >= outageMs) ended.add(retry.call);
  }
  return allowed;
}
