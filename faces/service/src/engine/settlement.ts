/**
 * Settlement: turns the end of an attempt into the settle that is written to the store. Core's
 * `decide` decides whether and when there is a next attempt; this file turns the decision into a row.
 */
import {
  type CallHistory,
  type CallRequest,
  classifyOutcome,
  compiledPolicyOf,
  type Decision,
  decide,
  type Gates,
  type HoldReason,
  type Outcome,
  type Policy,
  type Random,
  type StopReason,
} from "@redrive/core";
import type { AttemptResult } from "../deliver/attempt.ts";
import type { OnEnd, Settle, SettleResult, StartedTask } from "../model/batch.ts";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import { type AttemptLog, laneOf, type NewTask, NO_WAITS } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { DestinationRuntime, Destinations } from "./destination-runtime.ts";
import {
  type AttemptSummary,
  type EngineEvents,
  type EngineEventType,
  eventLabels,
  type WritableEventBody,
} from "./events.ts";
import type { Scheduler } from "./scheduler.ts";
import { originOf } from "./slots.ts";

/** After this many consecutive claims without an outcome, the task itself is considered the cause. */
const MAX_ABANDONED = 3;

/** The task as `decide` and `admit` see it. */
export function requestOf(
  task: Pick<StartedTask, "method" | "idempotent" | "idempotencyKey" | "deadlineAt">,
): CallRequest {
  return {
    method: task.method,
    idempotent: task.idempotent,
    patience: "wait",
    idempotencyKey: task.idempotencyKey ?? undefined,
    deadlineAt: task.deadlineAt ?? undefined,
  };
}

/** `attempts`: the number of attempts made so far. */
export function historyOf(
  task: Pick<StartedTask, "scheduledAt" | "lastDelayMs">,
  attempts: number,
): CallHistory {
  return { attempt: attempts, startedAt: task.scheduledAt, previousDelayMs: task.lastDelayMs };
}

/** The history for `admit`, before the attempt of a claim. */
export function entryHistoryOf(task: StartedTask, heldBy: HoldReason | undefined): CallHistory {
  return {
    attempt: task.attemptNumber - 1,
    startedAt: task.scheduledAt,
    previousDelayMs: task.lastDelayMs,
    heldBy,
  };
}

/** The end of an attempt, as input of a decision. */
export interface Ending {
  readonly task: StartedTask;
  readonly policy: Policy;
  readonly outcome: Outcome;
  readonly gates: Gates;
  readonly now: number;
  readonly random: Random;
  /** This node aborted the call because it stops or lost its lease. The task is not the cause. */
  readonly isCutOff?: boolean;
}

/** The number of consecutive claims without an outcome, including this one. */
function abandonedCountOf({ task, outcome, isCutOff = false }: Ending): number {
  if (outcome.kind !== "abandoned") return 0;
  return task.abandonedCount + (isCutOff ? 0 : 1);
}

/** Decides what happens to a task whose attempt has ended. */
export function decideEnding(ending: Ending): Decision {
  const { task, policy, outcome, gates, now, random } = ending;
  if (abandonedCountOf(ending) >= MAX_ABANDONED) {
    return { kind: "stop", status: "EXHAUSTED", reason: "poison" };
  }
  // After a success nothing is drawn.
  const stream = outcome.kind === "success" ? random : streamOf(random, policy, task);
  const history = historyOf(task, task.attemptNumber);
  const decision = decide(policy, requestOf(task), history, outcome, gates, now, stream);
  const isLost = outcome.kind === "abandoned" && decision.kind === "stop";
  return isLost && decision.reason === "attempts" ? { ...decision, reason: "abandoned" } : decision;
}

/**
 * The task's own random stream, advanced past the draws of its earlier decisions. A call in the
 * library, which keeps its stream in memory, gets the same draws.
 */
function streamOf(random: Random, policy: Policy, task: StartedTask): Random {
  const stream = random.fork(task.taskId);
  if (compiledPolicyOf(policy).draws) for (let n = 1; n < task.attemptNumber; n++) stream.next();
  return stream;
}

export function isThrottled(policy: Policy, outcome: Outcome): boolean {
  return classifyOutcome(policy, outcome) === "throttled";
}

/**
 * The settle of an attempt that ended with this decision. It is written field by field because it is
 * built for every attempt: building it by spread took a hundred times as long.
 */
export function settleOf(ending: Ending, decision: Decision, attempt: AttemptLog): Settle {
  const { task, now } = ending;
  const abandonedCount = abandonedCountOf(ending);
  const isEnd = decision.kind === "stop";
  return {
    tenantId: task.tenantId,
    taskId: task.taskId,
    ref: task.ref,
    claimEpoch: task.claimEpoch,
    claimedBy: task.claimedBy,
    lane: laneOf(task.attemptNumber, abandonedCount),
    abandonedCount,
    status: isEnd ? decision.status : "PENDING",
    reason: isEnd ? decision.reason : null,
    nextAttemptAt: nextAttemptAt(task, decision, now),
    lastDelayMs: isEnd ? task.lastDelayMs : decision.ownDelayMs,
    attempt: isEnd ? attempt : withDelay(attempt, decision, now),
  };
}

function nextAttemptAt(task: StartedTask, decision: Decision, now: number): number {
  if (decision.kind === "stop") return task.nextAttemptAt;
  return decision.kind === "retry" ? now + decision.delayMs : decision.until;
}

function withDelay(
  attempt: AttemptLog,
  decision: Exclude<Decision, { kind: "stop" }>,
  now: number,
): AttemptLog {
  return decision.kind === "retry"
    ? { ...attempt, nextDelayMs: decision.delayMs, delaySource: decision.source }
    : { ...attempt, nextDelayMs: Math.max(0, decision.until - now), delaySource: decision.by };
}

/** The settle that returns a claim as if it had not been made. */
export function releaseOf(task: StartedTask, nextAttemptAt: number): Settle {
  return {
    tenantId: task.tenantId,
    taskId: task.taskId,
    ref: task.ref,
    claimEpoch: task.claimEpoch,
    claimedBy: task.claimedBy,
    status: "PENDING",
    reason: null,
    nextAttemptAt,
    lastDelayMs: task.lastDelayMs,
    lane: laneOf(task.attemptNumber - 1, task.abandonedCount),
    abandonedCount: task.abandonedCount,
    attempt: null,
  };
}

/** The settle that ends a task without another attempt. `lastError`: its new last error. */
export function expirationOf(task: StartedTask, reason: StopReason, lastError?: string): Settle {
  const ended = { ...releaseOf(task, task.nextAttemptAt), status: "EXHAUSTED", reason } as const;
  return lastError === undefined ? ended : { ...ended, lastError };
}

/** Attempts of the task after this settle: a claim that sent nothing does not count. */
export function attemptsAfter({ attemptNumber }: StartedTask, { attempt }: Settle): number {
  return attempt === null ? attemptNumber - 1 : attemptNumber;
}

/** An attempt that was sent. */
interface SentAttempt {
  readonly task: StartedTask;
  readonly startedAt: number;
  readonly waits: AttemptLog["waits"];
}

export function attemptLogOf(
  { task, startedAt, waits }: SentAttempt,
  result: AttemptResult,
): AttemptLog {
  return {
    attemptNumber: task.attemptNumber,
    startedAt,
    durationMs: Math.floor(result.durationMs),
    phases: result.phases,
    outcome: result.outcome.kind,
    responseStatus: result.status,
    errorClass: result.errorClass,
    errorMessage: result.errorMessage,
    responseHeaders: result.responseHeaders,
    responseBody: result.responseBody,
    nextDelayMs: null,
    delaySource: null,
    waits,
  };
}

/** Why the outcome of an attempt is unknown. */
const NODE_LOST = "the node that ran the attempt was lost";
export const CUT_OFF =
  "the service aborted the attempt because it was stopping or had lost its lease";

/**
 * The log of an attempt whose outcome is unknown. If it was sent, it was sent when it was both
 * claimed and due.
 */
export function abandonedLogOf(
  task: StartedTask,
  now: number,
  errorMessage = NODE_LOST,
): AttemptLog {
  const startedAt = Math.max(task.claimedAt, task.nextAttemptAt);
  return {
    attemptNumber: task.attemptNumber,
    startedAt,
    durationMs: Math.max(0, now - startedAt),
    phases: null,
    outcome: "abandoned",
    responseStatus: null,
    errorClass: null,
    errorMessage,
    responseHeaders: null,
    responseBody: null,
    nextDelayMs: null,
    delaySource: null,
    waits: NO_WAITS,
  };
}

// After settle: what happens after a settle is committed. The scheduler learns when the next attempt
// and the follow-up task are due, and listeners receive an event.

export interface SettledTaskParts {
  readonly time: EngineTime;
  readonly scheduler: Scheduler;
  readonly events: EngineEvents;
  readonly destinations: Destinations;
}

interface SettledTask {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly settle: Settle;
  readonly result: SettleResult;
  /** When the attempt ended. */
  readonly endedAt: number;
  /** When the settle was committed. */
  readonly now: number;
  /** With the reason `held`: the guard that held the task. */
  readonly by?: HoldReason | undefined;
}

export function applySettled(
  { scheduler, events, destinations }: SettledTaskParts,
  { task, destination, settle, result, endedAt, now, by }: SettledTask,
): void {
  scheduleFollowUps(scheduler, destinations, settle.onEnd, result);
  if (result === "PENDING") {
    const lane = destination.lanes[settle.lane];
    lane.origin ??= originOf(task.targetUrl);
    scheduler.expectTask(lane, task.taskId, settle.nextAttemptAt);
  }
  const type = eventType(settle, result);
  if (type === undefined) return;
  const { tenantId, taskId, policyId, createdAt } = task;
  const labels = eventLabels(task.labels);
  const event: WritableEventBody = {
    type,
    tenantId,
    taskId,
    destination: destination.name,
    // A fenced settle changed nothing: another node decides how many attempts count.
    attemptNumber: result === "fenced" ? task.attemptNumber : attemptsAfter(task, settle),
    policyId,
    createdAt,
  };
  if (settle.attempt !== null) {
    event.attempt = summaryOf(settle.attempt, now - endedAt);
    if (settle.attempt.waits.length > 0) event.waits = settle.attempt.waits;
  }
  if (labels !== undefined) event.labels = labels;
  if (settle.reason !== null) event.reason = settle.reason;
  if (settle.reason === "held" && by !== undefined) event.by = by;
  if (result === "PENDING") event.nextAttemptAt = settle.nextAttemptAt;
  events.emit(now, event);
}

function summaryOf(attempt: AttemptLog, settleMs: number): AttemptSummary {
  const { outcome, responseStatus, errorClass, durationMs, nextDelayMs, delaySource } = attempt;
  return { outcome, responseStatus, errorClass, durationMs, nextDelayMs, delaySource, settleMs };
}

function eventType({ attempt }: Settle, result: SettleResult): EngineEventType | undefined {
  switch (result) {
    case "fenced":
      return "attempt.fenced";
    case "SUCCEEDED":
      return "task.succeeded";
    case "EXHAUSTED":
      return "task.exhausted";
    case "CANCELLED":
      return "task.cancelled";
    case "PENDING":
      if (attempt === null) return undefined;
      return attempt.outcome === "abandoned" ? "attempt.abandoned" : "attempt.failed";
  }
}

// Follow-up tasks: tasks that are created when another task ends (callbacks, forwarded dead letters).
// They are part of the settle that may end the task, so both are one commit.

/** The follow-up tasks for each way in which this settle may end the task; undefined: none. */
export type FollowUp = (
  task: StartedTask,
  settle: Settle,
  settings: DeliverySettings,
  now: number,
) => OnEnd | undefined;

export function withFollowUps(
  followUp: FollowUp,
  task: StartedTask,
  settle: Settle,
  settings: DeliverySettings,
  now: number,
): Settle {
  const onEnd = followUp(task, settle, settings, now);
  return onEnd === undefined ? settle : { onEnd, ...settle };
}

/** Schedules the tasks that were created together with this end. */
export function scheduleFollowUps(
  scheduler: Scheduler,
  destinations: Destinations,
  onEnd: OnEnd | undefined,
  result: SettleResult,
): void {
  if (onEnd === undefined || result === "PENDING" || result === "fenced") return;
  const followUps: readonly NewTask[] = onEnd[result] ?? [];
  for (const next of followUps) {
    const destination = destinations.getOrCreate(next.tenantId, next.destination);
    const lane = destination.lanes.first;
    scheduler.expectTask(lane, next.taskId, next.scheduledAt);
  }
}
