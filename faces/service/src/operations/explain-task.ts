/**
 * Explain task: says in one sentence why a task is not running now, from the stored state of the
 * task and its destination. It decides nothing; it only names what holds the task back.
 */
import { explainReason, formatDuration } from "@redrive/core";
import type { RetryTask } from "../model/task.ts";
import type { DestinationHealth } from "./destination-health.ts";

export interface TaskFacts {
  /** The limit of the service that holds it now, as a clause. Default: none. */
  readonly serviceHold?: string | undefined;
  /** Its total time budget or its deadline has passed. Default: false. */
  readonly isOver?: boolean;
  /** Why its policy cannot be read; absent: it can. */
  readonly unreadablePolicy?: string;
}

export function explainTask(
  task: RetryTask,
  health: DestinationHealth,
  now: number,
  facts: TaskFacts = {},
): string {
  switch (task.status) {
    case "SUCCEEDED":
      return `It succeeded at attempt ${task.attemptNumber}.`;
    case "CANCELLED":
      return `It was canceled after ${attempts(task.attemptNumber)}.`;
    case "EXHAUSTED":
      return `It ended after ${attempts(task.attemptNumber)}: ${whyEnded(task)}.`;
    case "IN_FLIGHT":
      return explainRunning(task, now);
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
  if (forMs < 0) return `Attempt ${attemptNumber} is due in ${formatDuration(-forMs)}.`;
  const runs = `Attempt ${attemptNumber} has been running for ${formatDuration(forMs)}`;
  return cancelRequestedAt === null
    ? `${runs}.`
    : `${runs}; if it does not succeed, the task is canceled.`;
}

function explainWaiting(
  task: RetryTask,
  health: DestinationHealth,
  now: number,
  { serviceHold, isOver = false, unreadablePolicy }: TaskFacts,
): string {
  const next = `Attempt ${task.attemptNumber + 1}`;
  if (unreadablePolicy !== undefined) return explainUnreadable(task, next, unreadablePolicy);
  const isRetry = task.attemptNumber > 0;
  const held = heldBy(health, isRetry, now) ?? serviceHold;
  const isPaused = health.pausedAt !== null || health.unreadable !== null;
  const waitMs = task.nextAttemptAt - now;
  if (isOver && (isPaused || waitMs <= 0)) return explainOver(held);
  if (isPaused) return `${next} waits: ${held}.`;
  if (waitMs > 0) return `${next} is due in ${formatDuration(waitMs)}.`;
  return held === undefined
    ? `${next} is due and starts as soon as a node claims it.`
    : `${next} is due, but ${held}.`;
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

/** What holds all calls to this destination now, the longest-lasting first. */
function heldBy(health: DestinationHealth, isRetry: boolean, now: number): string | undefined {
  const { name, pausedAt, gateUntil, openUntil, breakerState, concurrency, retryBudget } = health;
  if (health.unreadable !== null) {
    return `this version of Redrive cannot read the document of destination ${name} (${health.unreadable}): replace the document, or run the version that wrote it`;
  }
  if (pausedAt !== null) return `destination ${name} is paused until it is resumed`;
  if (breakerState !== "CLOSED" && openUntil > now) {
    return `the circuit of ${name} is open for another ${formatDuration(openUntil - now)}`;
  }
  if (gateUntil > now) {
    return `${name} asked all callers to wait (Retry-After) for another ${formatDuration(gateUntil - now)}`;
  }
  if (health.rateUntil > now) {
    return `the rate of ${name} is used up for ${formatDuration(health.rateUntil - now)}`;
  }
  if (isRetry && retryBudget === "empty") return `the retry budget of ${name} is empty`;
  if (concurrency !== null && concurrency.inFlight >= concurrency.limit) {
    return `all ${concurrency.limit} slots of ${name} are taken`;
  }
  return undefined;
}

function attempts(count: number): string {
  return count === 1 ? "1 attempt" : `${count} attempts`;
}
