/**
 * After settle: what happens after a settle is committed. The scheduler learns when the next attempt
 * and the follow-up task are due, and listeners receive an event.
 */
import type { HoldReason } from "@redrive/core";
import type { Settle, SettleResult, StartedTask } from "../../model/batch.ts";
import type { AttemptLog } from "../../model/task.ts";
import type { EngineTime } from "../../time/engine-time.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { Destinations } from "../destination/destinations.ts";
import {
  type AttemptSummary,
  type EngineEventType,
  eventLabels,
  type WritableEventBody,
} from "../events/engine-event.ts";
import type { EngineEvents } from "../events/engine-events.ts";
import { originOf } from "../schedule/origin.ts";
import type { Schedule } from "../schedule/scheduler.ts";
import { scheduleFollowUps } from "./follow-up-tasks.ts";
import { attemptsAfter } from "./settlement.ts";

export interface SettledTaskParts {
  readonly time: EngineTime;
  readonly scheduler: Schedule;
  readonly events: EngineEvents;
  readonly destinations: Destinations;
}

export interface SettledTask {
  readonly task: StartedTask;
  readonly destination: DestinationRuntime;
  readonly settle: Settle;
  readonly result: SettleResult;
  /** When the attempt ended. */
  readonly endedAt: number;
  /** With the reason `held`: the guard that held the task. */
  readonly by?: HoldReason | undefined;
}

export function applySettled(
  { scheduler, events, time, destinations }: SettledTaskParts,
  { task, destination, settle, result, endedAt, by }: SettledTask,
): void {
  scheduleFollowUps(scheduler, destinations, settle.onEnd, result);
  if (result === "PENDING") {
    const lane = scheduler.laneOf(destination, settle.lane, task.taskId);
    lane.origin ??= originOf(task.targetUrl);
    scheduler.expectTask(lane, task.taskId, settle.nextAttemptAt);
  }
  const type = eventType(settle, result);
  if (type === undefined) return;
  const { tenantId, taskId, policyId, createdAt } = task;
  const labels = eventLabels(task.labels);
  const now = time.now();
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
