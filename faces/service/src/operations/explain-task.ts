/**
 * Explain task: says in one sentence why a task is not running now, from the stored state of the
 * task, its last attempt and its destination. It decides nothing; it only names what holds the task.
 */
import { explainReason, formatDuration, type HoldReason, holdDescriptions } from "@redrive/core";
import type { Hold } from "../engine/lanes.ts";
import type { AttemptLog, RetryTask, WaitCause } from "../model/task.ts";
import type { DestinationHealth } from "./destination-health.ts";

export interface TaskFacts {
  /** The limit of the service that holds it now, as a clause. Default: none. */
  readonly serviceHold?: string | undefined;
  /** The guard that holds its lane on this node. Default: none, or another node has the lane. */
  readonly laneHold?: Pick<Hold, "by" | "since"> | undefined;
  /** The last attempt; null: none yet, or it was removed. Default: null. */
  readonly lastAttempt?: AttemptLog | null;
  /** Its total time budget or its deadline has passed. Default: false. */
  readonly isOver?: boolean;
  /** Why its policy cannot be read; absent: it can. */
  readonly unreadablePolicy?: string;
}

/** The wait of a task that is not running now. */
interface CurrentWait {
  readonly cause: WaitCause;
  readonly sinceAt: number;
  /** When it ends at the latest, or when the circuit is probed next; null: not known. */
  readonly untilAt: number | null;
}

export interface Explanation {
  readonly text: string;
  /** Null: it is running, has ended, waits for its first instant, or nothing holds it. */
  readonly wait: CurrentWait | null;
}

export function explainTask(
  task: RetryTask,
  health: DestinationHealth,
  now: number,
  facts: TaskFacts = {},
): Explanation {
  const plain = (text: string) => ({ text, wait: null });
  switch (task.status) {
    case "SUCCEEDED":
      return plain(`It succeeded at attempt ${task.attemptNumber}.`);
    case "CANCELLED":
      return plain(`It was canceled after ${attempts(task.attemptNumber)}.`);
    case "EXHAUSTED":
      return plain(`It ended after ${attempts(task.attemptNumber)}: ${whyEnded(task)}.`);
    case "IN_FLIGHT":
      return plain(explainRunning(task, now));
    case "PENDING":
      return explainWaiting(task, health, now, facts);
  }
}

/** For a task that ended while held, the last error names the guard. */
function whyEnded({ reason, lastError, redrivenTo }: RetryTask): string {
  const known = reason === null ? "no reason is known" : explainReason(reason);
  const why = reason === "held" ? (lastError ?? known) : known;
  return redrivenTo === null ? why : `${why}; it was redriven as ${redrivenTo}`;
}

/** A task may be claimed slightly ahead; its attempt then starts when it is due. */
function explainRunning(task: RetryTask, now: number): string {
  const { attemptNumber, claimedAt, nextAttemptAt, cancelRequestedAt } = task;
  const forMs = now - Math.max(claimedAt ?? now, nextAttemptAt);
  if (forMs < 0) return `Attempt ${attemptNumber} is due in ${roughDuration(-forMs)}.`;
  const runs = `Attempt ${attemptNumber} has been running for ${roughDuration(forMs)}`;
  return cancelRequestedAt === null
    ? `${runs}.`
    : `${runs}; if it does not succeed, the task is canceled.`;
}

function explainWaiting(
  task: RetryTask,
  health: DestinationHealth,
  now: number,
  facts: TaskFacts,
): Explanation {
  const { serviceHold, isOver = false, unreadablePolicy } = facts;
  const next = `Attempt ${task.attemptNumber + 1}`;
  if (unreadablePolicy !== undefined) {
    return { text: explainUnreadable(task, next, unreadablePolicy), wait: null };
  }
  if (task.lastError?.includes(NO_KEY))
    return { text: `${next} waits: ${task.lastError}.`, wait: null };
  const hold = currentHold(task, health, now, facts);
  const held = hold?.text ?? serviceHold;
  const isPaused = health.pausedAt !== null || health.unreadable !== null;
  const waitMs = task.nextAttemptAt - now;
  const wait = hold?.wait ?? null;
  if (isOver && (isPaused || waitMs <= 0)) return { text: explainOver(held), wait };
  if (isPaused) return { text: `${next} waits: ${held}.`, wait };
  if (waitMs > 0) return explainDelay(task, next, now, facts.lastAttempt ?? null);
  return held === undefined
    ? { text: `${next} is due and starts as soon as a node claims it.`, wait }
    : { text: `${next} is due, but ${held}.`, wait };
}

/** In the last error of a task that its node gave back, because it lacks an encryption key. */
const NO_KEY = "cannot be decrypted";

const DELAY_TEXTS: Readonly<Record<string, string>> = {
  policy: "the delay of its policy",
  "retry-after": "the target asked for this wait (Retry-After)",
};

/** The delay after the last attempt. */
function explainDelay(
  { nextAttemptAt }: RetryTask,
  next: string,
  now: number,
  last: AttemptLog | null,
): Explanation {
  const dueIn = `${next} is due in ${roughDuration(nextAttemptAt - now)}`;
  const cause = (last?.delaySource ?? null) as WaitCause | null;
  if (last === null || cause === null) return { text: `${dueIn}.`, wait: null };
  const why = DELAY_TEXTS[cause] ?? `held by ${holdDescriptions[cause as HoldReason]}`;
  const sinceAt = last.startedAt + last.durationMs;
  return { text: `${dueIn}: ${why}.`, wait: { cause, sinceAt, untilAt: nextAttemptAt } };
}

function explainUnreadable(task: RetryTask, next: string, reason: string): string {
  const policy = `version ${task.policyVersion} of policy ${task.policyId}`;
  return `${next} waits: this version of Redrive cannot read ${policy} (${reason}): replace the policy, or run the version that wrote it.`;
}

/** A task ends when it is claimed, and a closed gate prevents claims. */
function explainOver(held: string | undefined): string {
  return held === undefined
    ? "Its time is over: it ends without another attempt as soon as a node claims it."
    : `Its time is over: it ends without another attempt once a node can claim it, but ${held}.`;
}

interface CurrentHold {
  /** A clause. */
  readonly text: string;
  readonly wait: CurrentWait;
}

/** What holds the task now, the longest-lasting first. */
function currentHold(
  task: RetryTask,
  health: DestinationHealth,
  now: number,
  { laneHold }: TaskFacts,
): CurrentHold | undefined {
  const found = heldBy(health, task.attemptNumber > 0, now) ?? laneHoldOf(laneHold);
  if (found === undefined) return undefined;
  const { cause, untilAt, text } = found;
  const knownAt = laneHold?.by === cause ? laneHold.since : undefined;
  const sinceAt = Math.max(task.nextAttemptAt, knownAt ?? health.pausedAt ?? 0);
  const forMs = now - sinceAt;
  const since = forMs > 0 ? ` for ${roughDuration(forMs)}` : "";
  return { text: text(since), wait: { cause, sinceAt: Math.min(sinceAt, now), untilAt } };
}

interface FoundHold {
  readonly cause: HoldReason;
  readonly untilAt: number | null;
  /** `since`: " for 2 s", or empty. */
  readonly text: (since: string) => string;
}

function laneHoldOf(hold: TaskFacts["laneHold"]): FoundHold | undefined {
  if (hold === undefined) return undefined;
  const text = (since: string) => `${holdDescriptions[hold.by]} has held it${since}`;
  return { cause: hold.by, untilAt: null, text };
}

function heldBy(health: DestinationHealth, isRetry: boolean, now: number): FoundHold | undefined {
  const { name, pausedAt, gateUntil, openUntil, breakerState, concurrency, retryBudget } = health;
  const hold = (cause: HoldReason, untilAt: number | null, text: FoundHold["text"]) => ({
    cause,
    untilAt,
    text,
  });
  if (health.unreadable !== null) {
    const why = `this version of Redrive cannot read the document of destination ${name} (${health.unreadable}): replace the document, or run the version that wrote it`;
    return hold("pause", null, () => why);
  }
  if (pausedAt !== null) {
    return hold("pause", null, () => `destination ${name} is paused until it is resumed`);
  }
  if (breakerState !== "CLOSED" && openUntil > now) {
    const probe = `next probe in ${roughDuration(openUntil - now)}`;
    return hold("circuit-open", openUntil, (since) => {
      return `the breaker of ${name} has held it${since}, ${probe}`;
    });
  }
  if (gateUntil > now) {
    const leftText = roughDuration(gateUntil - now);
    return hold("retry-after", gateUntil, () => {
      return `${name} asked all callers to wait (Retry-After) for another ${leftText}`;
    });
  }
  if (health.rateUntil > now) {
    const leftText = roughDuration(health.rateUntil - now);
    return hold("rate", health.rateUntil, () => `the rate of ${name} is used up for ${leftText}`);
  }
  if (isRetry && retryBudget === "empty") {
    return hold("retry-budget", null, () => `the retry budget of ${name} is empty`);
  }
  if (concurrency !== null && concurrency.inFlight >= concurrency.limit) {
    return hold("concurrency", null, () => `all ${concurrency.limit} slots of ${name} are taken`);
  }
  return undefined;
}

function attempts(count: number): string {
  return count === 1 ? "1 attempt" : `${count} attempts`;
}

/** Below `belowMs`, a duration is rounded to `stepMs`. */
const STEPS = [
  { belowMs: 1000, stepMs: 1 },
  { belowMs: 10_000, stepMs: 100 },
  { belowMs: 60_000, stepMs: 1000 },
  { belowMs: 3_600_000, stepMs: 6000 },
  { belowMs: 86_400_000, stepMs: 360_000 },
] as const;
const DAY_STEP_MS = 8_640_000;

/** A duration in a sentence, with two or three digits: "46 s", not "46.42 s". */
export function roughDuration(ms: number): string {
  const stepMs = STEPS.find(({ belowMs }) => ms < belowMs)?.stepMs ?? DAY_STEP_MS;
  return formatDuration(Math.round(ms / stepMs) * stepMs);
}
