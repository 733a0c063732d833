/**
 * Follow-up tasks: tasks that are created when another task ends (callbacks, forwarded dead letters).
 * They are part of the settle that may end the task, so both are one commit.
 */
import type { OnEnd, Settle, SettleResult, StartedTask } from "../../model/batch.ts";
import type { DeliverySettings } from "../../model/delivery/delivery-settings.ts";
import type { NewTask } from "../../model/task.ts";
import type { Destinations } from "../destination/destinations.ts";
import type { Schedule } from "../schedule/scheduler.ts";

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
  scheduler: Schedule,
  destinations: Destinations,
  onEnd: OnEnd | undefined,
  result: SettleResult,
): void {
  if (onEnd === undefined || result === "PENDING" || result === "fenced") return;
  const followUps: readonly NewTask[] = onEnd[result] ?? [];
  for (const next of followUps) {
    const destination = destinations.getOrCreate(next.tenantId, next.destination);
    const lane = scheduler.laneOf(destination, "first", next.taskId);
    scheduler.expectTask(lane, next.taskId, next.scheduledAt);
  }
}
