/**
 * Skips: the dead letters that a redrive left as they are, by reason, with the names of the first:
 * one that cannot be redriven keeps none of the others back, and somebody can find it.
 */
import { RedriveError } from "@redrive/core";

/** `redriven`: somebody else was first. `target-denied`: the key that began it may not send there. */
export type SkipReason = "redriven" | "unknown-policy" | "target-denied";

export interface Skips {
  readonly reason: SkipReason;
  readonly count: number;
  /** What kept the first of them back. */
  readonly detail: string;
  /** The first of them, 20 at most. */
  readonly taskIds: readonly string[];
}

export interface Skip {
  readonly reason: SkipReason;
  readonly detail: string;
}

export const REDRIVEN: Skip = { reason: "redriven", detail: "somebody else has redriven it" };

const MAX_NAMED = 20;

/** What says something of one dead letter alone. */
const REASONS: Readonly<Record<string, SkipReason>> = {
  UNKNOWN_POLICY: "unknown-policy",
  TARGET_DENIED: "target-denied",
};

/** Why to go on without it; undefined: the error is of another kind. */
export function skipOf(error: unknown): Skip | undefined {
  if (!(error instanceof RedriveError) || !Object.hasOwn(REASONS, error.code)) return undefined;
  return { reason: REASONS[error.code] as SkipReason, detail: error.message };
}

export function withSkip(
  skips: readonly Skips[],
  { reason, detail }: Skip,
  taskId: string,
): readonly Skips[] {
  const known = skips.find((one) => one.reason === reason);
  if (known === undefined) return [...skips, { reason, count: 1, detail, taskIds: [taskId] }];
  const { count, taskIds } = known;
  const named = taskIds.length < MAX_NAMED ? [...taskIds, taskId] : taskIds;
  const more = { ...known, count: count + 1, taskIds: named };
  return skips.map((one) => (one === known ? more : one));
}

export function skippedIn(skips: readonly Skips[]): number {
  return skips.reduce((sum, { count }) => sum + count, 0);
}
