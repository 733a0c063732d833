/**
 * Comparable: decides whether a guard case has exactly one correct result. Two events can happen at
 * one instant in either order (a call arrives as a slot becomes free), and each face may choose the
 * order. Timeouts are coarse in the library. Cases that depend on either are skipped.
 */
import type { PolicyDocument } from "@redrive/core";
import { type GuardCase, MAX_CALL_MS } from "./guard-cases.ts";
import type { GuardedRun, RunAttempt, RunEnd } from "./guarded-run.ts";
import type { LibraryRun } from "./library-run.ts";

/** `other` is the run of another face, which may have sent hedges that the library did not. */
export function isComparable(given: GuardCase, run: LibraryRun, other: GuardedRun = run): boolean {
  return !hasTimeout(given, run) && !hasTie(given, run, other);
}

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
function hasTimeout({ arrivals, document }: GuardCase, { attempts }: GuardedRun): boolean {
  const { totalBudgetMs = 30_000 } = document.policy as PolicyDocument;
  return attempts.some(({ call, at }) => at + MAX_CALL_MS >= (arrivals[call] ?? 0) + totalBudgetMs);
}

/** An event that no other event of the same instant caused. */
interface Cause {
  readonly at: number;
  readonly call: number;
  readonly kind: "arrival" | "end" | "due" | "hedge" | "deadline" | "wake";
  /** Orders the causes of one instant if all have the same kind. */
  readonly order: number;
}

function hasTie(given: GuardCase, run: LibraryRun, other: GuardedRun): boolean {
  const byInstant = new Map<number, Cause[]>();
  for (const cause of [...causesOf(given, run), ...hedgesOf(other)]) {
    byInstant.set(cause.at, [...(byInstant.get(cause.at) ?? []), cause]);
  }
  return [...byInstant.values()].some(isTie);
}

/** Every face handles causes of one kind by call number, if they arose in that order. */
function isTie(causes: readonly Cause[]): boolean {
  const sorted = causes.toSorted((a, b) => a.order - b.order || a.call - b.call);
  return (
    causes.length > 1 &&
    sorted.some((cause, index) => {
      const previous = sorted[index - 1];
      return previous !== undefined && (previous.kind !== cause.kind || previous.call > cause.call);
    })
  );
}

function hedgesOf({ attempts }: GuardedRun): Cause[] {
  return attempts
    .filter(({ copy }) => copy > 0)
    .map(({ call, at }): Cause => ({ at, call, kind: "hedge", order: 0 }));
}

function causesOf(given: GuardCase, { attempts, ends, retries }: LibraryRun): Cause[] {
  const { arrivals } = given;
  const endOf = ({ call, attempt, copy, at }: RunAttempt) =>
    at + given.outcomeOf(call, attempt, copy).durationMs;
  const endInstants = new Set(attempts.map(endOf));
  return [
    ...hedgesOf({ attempts, ends }),
    // When a guard ends its hold, several calls leave the queue in order.
    ...attempts
      .filter(({ at, dueAt }) => at > dueAt && !endInstants.has(at))
      .map(({ at }): Cause => ({ at, call: 0, kind: "wake", order: 0 })),
    ...arrivals.map((at, call): Cause => ({ at, call, kind: "arrival", order: 0 })),
    ...attempts.map(
      (attempt): Cause => ({
        at: endOf(attempt),
        call: attempt.call,
        kind: "end",
        order: attempt.at,
      }),
    ),
    ...retries.map(
      ({ call, dueAt, decidedAt }): Cause => ({ at: dueAt, call, kind: "due", order: decidedAt }),
    ),
    ...ends
      .filter((end) => isDeadline(given, end))
      .map(({ call, at }): Cause => ({ at, call, kind: "deadline", order: 0 })),
  ];
}
