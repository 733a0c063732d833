/**
 * Comparable: whether a guard case has one right answer. Two things may happen at one instant in
 * either order (a call arrives as a slot becomes free); which comes first is then up to the face. And
 * timeouts are coarse in the library. Cases in which that matters are left out.
 */
import type { PolicyDocument } from "@redrive/core";
import { type GuardCase, MAX_CALL_MS } from "./guard-cases.ts";
import type { GuardedRun, RunAttempt, RunEnd } from "./guarded-run.ts";
import type { LibraryRun } from "./library-run.ts";

/** `other`: what another face made of it, which may have sent hedges that the library did not. */
export function isComparable(given: GuardCase, run: LibraryRun, other: GuardedRun = run): boolean {
  return !hasTimeout(given, run) && !hasTie(given, run, other);
}

/**
 * The service finds out that a task's time is over only when it has a permit for it. If the throttle
 * refuses that permit, it rests for a second, which no call in a process would have made it do.
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

/** An attempt that starts so late that its call's budget cuts it off. */
function hasTimeout({ arrivals, document }: GuardCase, { attempts }: GuardedRun): boolean {
  const { totalBudgetMs = 30_000 } = document.policy as PolicyDocument;
  return attempts.some(({ call, at }) => at + MAX_CALL_MS >= (arrivals[call] ?? 0) + totalBudgetMs);
}

/** Something that happens by itself, not because of something else at that instant. */
interface Cause {
  readonly at: number;
  readonly call: number;
  readonly kind: "arrival" | "end" | "due" | "hedge" | "deadline" | "wake";
  /** What came first comes first again, if all causes of an instant are of one kind. */
  readonly order: number;
}

function hasTie(given: GuardCase, run: LibraryRun, other: GuardedRun): boolean {
  const byInstant = new Map<number, Cause[]>();
  for (const cause of [...causesOf(given, run), ...hedgesOf(other)]) {
    byInstant.set(cause.at, [...(byInstant.get(cause.at) ?? []), cause]);
  }
  return [...byInstant.values()].some(isTie);
}

/** Causes of one kind are taken in the order of their calls everywhere, if they came about in it. */
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
    // Guards whose instant has come let several go, in the order of the queue.
    ...attempts
      .filter(({ at, dueAt }) => at > dueAt && !endInstants.has(at))
      .map(({ at }): Cause => ({ at, call: 0, kind: "wake", order: 0 })),
    ...arrivals.map((at, call): Cause => ({ at, call, kind: "arrival", order: 0 })),
    ...attempts.map(
      (one): Cause => ({ at: endOf(one), call: one.call, kind: "end", order: one.at }),
    ),
    ...retries.map(
      ({ call, dueAt, decidedAt }): Cause => ({ at: dueAt, call, kind: "due", order: decidedAt }),
    ),
    ...ends
      .filter((end) => isDeadline(given, end))
      .map(({ call, at }): Cause => ({ at, call, kind: "deadline", order: 0 })),
  ];
}
