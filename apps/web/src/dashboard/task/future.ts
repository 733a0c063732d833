/**
 * Future: when the next attempts of a task start if each one fails, as ranges: the jitter of each wait
 * is drawn only when the attempt before has failed.
 */
import { compiledPolicyOf, type Policy } from "@redrive/core";
import type { TaskView } from "../service/client.ts";

export interface FutureAttempt {
  readonly attempt: number;
  readonly earliestAt: number;
  readonly latestAt: number;
}

export interface Future {
  /** The next attempt first. Its instant is known. None are left if the time is over by then. */
  readonly attempts: readonly FutureAttempt[];
  /** No attempt starts later: the end of the total time, or the deadline. */
  readonly giveUpAt: number;
  /** Attempts that the list leaves out, at its end. */
  readonly more: number;
}

/** Rows of the list. A policy allows a thousand attempts. */
const MAX_ATTEMPTS = 12;
const LAST_DRAW = 1 - 2 ** -53;

type Waiting = Pick<
  TaskView,
  | "status"
  | "attemptNumber"
  | "nextAttemptAt"
  | "createdAt"
  | "scheduledAt"
  | "deadlineAt"
  | "lastDelayMs"
  | "wait"
>;

/**
 * Undefined if the task has ended, or its next attempt is running: then its wait is not drawn yet. An
 * attempt that a guard holds starts when the hold ends, as far as that is known.
 */
export function futureOf(task: Waiting, policy: Policy, now: number): Future | undefined {
  const { status, attemptNumber, deadlineAt, createdAt, scheduledAt, wait } = task;
  if (status !== "PENDING" || task.nextAttemptAt === null) return undefined;
  const nextAttemptAt = Math.max(task.nextAttemptAt, now, wait?.untilAt ?? 0);
  const startAt = Math.max(createdAt, scheduledAt);
  const giveUpAt = Math.min(startAt + policy.totalBudgetMs, deadlineAt ?? Number.POSITIVE_INFINITY);
  const next = { attempt: attemptNumber + 1, earliestAt: nextAttemptAt, latestAt: nextAttemptAt };
  const all = [...rangesFrom(next, task.lastDelayMs, policy, giveUpAt)];
  return {
    attempts: all.slice(0, MAX_ATTEMPTS),
    giveUpAt,
    more: Math.max(0, all.length - MAX_ATTEMPTS),
  };
}

function* rangesFrom(
  next: FutureAttempt,
  lastDelayMs: number,
  policy: Policy,
  giveUpAt: number,
): Generator<FutureAttempt> {
  const compiled = compiledPolicyOf(policy);
  let [low, high] = [lastDelayMs, lastDelayMs];
  let { earliestAt, latestAt } = next;
  for (let { attempt } = next; earliestAt <= giveUpAt; attempt++) {
    yield { attempt, earliestAt, latestAt: Math.min(latestAt, giveUpAt) };
    if (attempt >= policy.maxAttempts) return;
    // Decorrelated jitter depends on the wait before, so the range widens with both ends.
    low = compiled.delayMs(attempt, low, 0);
    high = compiled.delayMs(attempt, high, LAST_DRAW);
    earliestAt += low;
    latestAt += high;
  }
}
