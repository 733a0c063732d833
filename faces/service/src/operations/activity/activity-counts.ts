/** Activity counts: what is counted per minute, and how the counts of several nodes become one. */
import { type CountsOf, MINUTE_MS, MINUTES, type MinuteCounts, minuteOf } from "./minute-counts.ts";
import type { SavedActivity } from "./saved-activity.ts";

/** `oldestAgeMs` is sampled once per minute; the others count events. */
export const TENANT_MEASURES = [
  "created",
  "attempts",
  "retries",
  "succeeded",
  "deadLetters",
  "canceled",
  "oldestAgeMs",
] as const;
export type TenantMeasure = (typeof TENANT_MEASURES)[number];

export const DESTINATION_MEASURES = ["attempts", "retries", "failed"] as const;
export type DestinationMeasure = (typeof DESTINATION_MEASURES)[number];

/** Sixty minutes, the oldest first. The last one is the current minute. */
export interface Activity<Measure extends string> {
  /** The start of the first minute; epoch ms. */
  readonly firstMinuteAt: number;
  readonly minuteMs: number;
  readonly counts: CountsOf<Measure>;
}

export function savedOf(counts: MinuteCounts<TenantMeasure>, now: number): SavedActivity {
  return { minute: minuteOf(now), counts: counts.read(now) };
}

/** Ages are not added up: the oldest task of the fleet is the oldest of all nodes. */
export function addAll(
  merged: MinuteCounts<TenantMeasure>,
  saved: SavedActivity,
  now: number,
): void {
  const first = saved.minute - MINUTES + 1;
  for (const measure of TENANT_MEASURES) {
    for (const [index, count] of (saved.counts[measure] ?? []).entries()) {
      const at = (first + index) * MINUTE_MS;
      // A node whose clock is ahead must not push out the minutes of the others.
      if (count === 0 || at > now) continue;
      if (measure === "oldestAgeMs") merged.raise(at, measure, count);
      else merged.add(at, measure, count);
    }
  }
}

export function activityOf<Measure extends string>(
  counts: MinuteCounts<Measure>,
  now: number,
): Activity<Measure> {
  const firstMinuteAt = (minuteOf(now) - MINUTES + 1) * MINUTE_MS;
  return { firstMinuteAt, minuteMs: MINUTE_MS, counts: counts.read(now) };
}
