/**
 * Skips: the dead letters that a redrive did not redrive, by reason, with the first task ids. A
 * dead letter that cannot be redriven does not block the others, and an operator can find it.
 */
import { RedriveError } from "@redrive/core";

/**
 * `redriven`: another caller was first. `target-denied`: the key of the redrive may not send there.
 */
export type SkipReason = "redriven" | "unknown-policy" | "target-denied";

export interface Skips {
  readonly reason: SkipReason;
  readonly count: number;
  /** The reason of the first one. */
  readonly detail: string;
  /** The first task ids, at most 20. */
  readonly taskIds: readonly string[];
}

export interface Skip {
  readonly reason: SkipReason;
  readonly detail: string;
}

export const REDRIVEN: Skip = { reason: "redriven", detail: "another caller has redriven it" };

const MAX_NAMED = 20;

/** Errors that concern a single dead letter. */
const REASONS: Readonly<Record<string, SkipReason>> = {
  UNKNOWN_POLICY: "unknown-policy",
  TARGET_DENIED: "target-denied",
};

/** The reason to skip a dead letter; undefined: the error concerns the whole redrive. */
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
