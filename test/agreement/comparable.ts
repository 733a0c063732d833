/**
 * Comparable: decides whether a guard case has the same correct result in every face. Timeouts are
 * coarse in the library, so cases that depend on one are skipped.
 */
import type { PolicyDocument } from "@redrive/core";
import { type GuardCase, MAX_CALL_MS } from "./guard-cases.ts";
import type { GuardedRun, RunEnd } from "./guarded-run.ts";
import type { LibraryRun } from "./library-run.ts";

/**
 * The service notices that a task's time is over only when it gets a permit for the task. If the
 * throttle refuses the permit, the service waits for a second. The library does not wait there.
 */
export function hasExpiryUnderThrottle(given: GuardCase, { ends }: GuardedRun): boolean {
  const { rate } = given.document;
  const isThrottled = rate !== undefined && rate !== false && Boolean(rate.throttle);
  return isThrottled && ends.some((end) => isDeadline(given, end));
}

function isDeadline({ arrivals, document }: GuardCase, { call, at }: RunEnd): boolean {
  const { totalBudgetMs = 30_000 } = document.policy as PolicyDocument;
  return at === (arrivals[call] ?? 0) + totalBudgetMs;
}

/** Whether an attempt starts so late that the total budget of its call ends it. */
export function hasTimeout({ arrivals, document }: GuardCase, { attempts }: GuardedRun): boolean {
  const { totalBudgetMs = 30_000 } = document.policy as PolicyDocument;
  return attempts.some(({ call, at }) => at + MAX_CALL_MS >= (arrivals[call] ?? 0) + totalBudgetMs);
}

/**
 * Whether a retry is due in the same ms as another attempt. In the service, first attempts then go
 * first, and the older task before the newer one. In the library, the timer goes first that was set
 * first.
 */
export function hasRetryTie({ arrivals }: GuardCase, { retries }: LibraryRun): boolean {
  const seen = new Set(arrivals);
  return retries.some(({ dueAt }) => {
    const isSeen = seen.has(dueAt);
    seen.add(dueAt);
    return isSeen;
  });
}

/**
 * Whether several attempts end in one ms, and that matters: one fails, or held attempts start. The
 * library decides and lets calls in after each end. The service settles them in one commit and claims for
 * one lane at a time, so the next attempt may end meanwhile.
 */
export function hasEndTie(given: GuardCase, { attempts }: GuardedRun): boolean {
  const startsAt = new Set(attempts.filter(({ heldBy }) => heldBy).map(({ at }) => at));
  const seen = new Map<number, boolean>();
  return attempts.some(({ call, attempt, copy, at }) => {
    const { outcome, durationMs } = given.outcomeOf(call, attempt, copy);
    const endAt = at + durationMs;
    const matters = outcome.kind !== "success" || startsAt.has(endAt);
    const other = seen.get(endAt);
    seen.set(endAt, matters || other === true);
    return other !== undefined && (other || matters);
  });
}

/**
 * Whether held attempts start in the ms in which an attempt fails, with a retry budget. The library lets
 * calls in before it decides about the retry, and first attempts fill the budget. The service decides
 * first.
 */
export function hasBudgetRace(given: GuardCase, { attempts }: GuardedRun): boolean {
  if (!given.document.retryBudget) return false;
  const startsAt = new Set(attempts.filter(({ heldBy }) => heldBy).map(({ at }) => at));
  return attempts.some(({ call, attempt, copy, at }) => {
    const { outcome, durationMs } = given.outcomeOf(call, attempt, copy);
    return outcome.kind !== "success" && startsAt.has(at + durationMs);
  });
}
