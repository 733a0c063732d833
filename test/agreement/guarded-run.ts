/** Guarded run: the comparable result of one face for a guard case. */
import type { HoldReason } from "@redrive/core";

export interface RunAttempt {
  readonly call: number;
  readonly attempt: number;
  readonly copy: number;
  /** When it was due and when it was sent, in ms from the start. */
  readonly dueAt: number;
  readonly at: number;
  /** The guard that held it last; absent if it was sent when due. */
  readonly heldBy?: HoldReason;
}

export interface RunEnd {
  readonly call: number;
  readonly at: number;
  readonly reason: string;
  /** The guard that held the call, if the reason is `held`. */
  readonly by?: HoldReason;
}

/** When a retry was decided, and when it was due. */
export interface RunRetry {
  readonly call: number;
  readonly decidedAt: number;
  readonly dueAt: number;
}

export interface GuardedRun {
  readonly attempts: readonly RunAttempt[];
  readonly ends: readonly RunEnd[];
}

export function sortedRun({ attempts, ends }: GuardedRun): GuardedRun {
  return {
    attempts: attempts.toSorted(
      (a, b) => a.at - b.at || a.call - b.call || a.attempt - b.attempt || a.copy - b.copy,
    ),
    ends: ends.toSorted((a, b) => a.call - b.call),
  };
}
