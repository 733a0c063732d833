/**
 * Redrive bounds: the ranges and defaults of a redrive's options, in one table for the embedded
 * service, the HTTP API and the command line.
 */
import { assertRange, quote, RedriveError } from "@redrive/core";

/** With the keywords of JSON Schema. */
export const REDRIVE_BOUNDS = {
  ratePerSecond: { minimum: 0.1, maximum: 10_000, default: 10 },
  /** An integer. */
  canary: { minimum: 0, maximum: 100, default: 0 },
  taskIds: { minItems: 1, maxItems: 1000 },
} as const;

interface Bounded {
  readonly ratePerSecond: number;
  readonly canary: number;
  readonly taskIds?: readonly string[];
}

/** Throws `INVALID_ARGUMENT` for the first option that is out of bounds. */
export function assertBounds({ ratePerSecond, canary, taskIds }: Bounded): void {
  const { ratePerSecond: rate, canary: first, taskIds: named } = REDRIVE_BOUNDS;
  assertRange("ratePerSecond", ratePerSecond, rate.minimum, rate.maximum);
  assertRange("canary", canary, first.minimum, first.maximum);
  if (!Number.isInteger(canary)) {
    throw new RedriveError("INVALID_ARGUMENT", `canary must be an integer, got ${quote(canary)}`);
  }
  if (taskIds !== undefined) {
    assertRange("the number of taskIds", taskIds.length, named.minItems, named.maxItems);
  }
}
