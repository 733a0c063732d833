/**
 * Redrive bounds: what a redrive may be asked for, and what it does unasked: one table for the
 * embedded form, the HTTP API and the command line.
 */
import { assertRange, quote, RedriveError } from "@redrive/core";

/** In the words of JSON Schema. */
export const REDRIVE_BOUNDS = {
  ratePerSecond: { minimum: 0.1, maximum: 10_000, default: 10 },
  /** Whole. */
  canary: { minimum: 0, maximum: 100, default: 0 },
  taskIds: { minItems: 1, maxItems: 1000 },
} as const;

interface Bounded {
  readonly ratePerSecond: number;
  readonly canary: number;
  readonly taskIds?: readonly string[];
}

/** Throws `INVALID_ARGUMENT` with the first that is out of bounds. */
export function assertBounds({ ratePerSecond, canary, taskIds }: Bounded): void {
  const { ratePerSecond: rate, canary: first, taskIds: named } = REDRIVE_BOUNDS;
  assertRange("ratePerSecond", ratePerSecond, rate.minimum, rate.maximum);
  assertRange("canary", canary, first.minimum, first.maximum);
  if (!Number.isInteger(canary)) {
    throw new RedriveError("INVALID_ARGUMENT", `canary must be whole, got ${quote(canary)}`);
  }
  if (taskIds !== undefined) {
    assertRange("the number of taskIds", taskIds.length, named.minItems, named.maxItems);
  }
}
