/** Recent attempts: whether a destination fails, from the counts of its last minutes. */
import type { DestinationMeasure } from "./activity-counts.ts";
import type { MinuteCounts } from "./minute-counts.ts";

/** The attempts of a destination in the last five minutes, on this node. */
export interface RecentAttempts {
  readonly attempts: number;
  readonly failed: number;
  /** At least half of them failed, and not only one or two. */
  readonly failing: boolean;
}

const MINUTES = 5;
const MIN_FAILED = 3;

export function recentAttempts(
  counts: MinuteCounts<DestinationMeasure> | undefined,
  now: number,
): RecentAttempts {
  const attempts = counts?.sumOf("attempts", now, MINUTES) ?? 0;
  const failed = counts?.sumOf("failed", now, MINUTES) ?? 0;
  return { attempts, failed, failing: failed >= MIN_FAILED && failed * 2 >= attempts };
}
