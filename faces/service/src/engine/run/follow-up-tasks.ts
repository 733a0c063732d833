/**
 * Followers: tasks that follow on the end of another (callbacks), put into the settle that may end
 * it, so that both are one commit.
 */
import type { OnEnd, Settle, SettleResult, StartedTask } from "../../model/batch.ts";
import type { NewTask } from "../../model/task.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { Scheduler } from "../schedule/scheduler.ts";

/** What follows on each end that this settle may be; undefined: nothing. */
export type FollowUp = (task: StartedTask, settle: Settle, now: number) => OnEnd | undefined;

export type FindDestination = (tenantId: string, name: string) => DestinationRuntime;

export function withFollowUps(
  follow: FollowUp,
  task: StartedTask,
  settle: Settle,
  now: number,
): Settle {
  const onEnd = follow(task, settle, now);
  return onEnd === undefined ? settle : { ...settle, onEnd };
}

/** The scheduler is told of the task that was created with this end. */
export function scheduleFollowUp(
  scheduler: Scheduler,
  destinationOf: FindDestination,
  onEnd: OnEnd | undefined,
  result: SettleResult,
): void {
  if (onEnd === undefined || result === "PENDING" || result === "fenced") return;
  const next: NewTask | undefined = onEnd[result];
  if (next === undefined) return;
  const { lanes } = destinationOf(next.tenantId, next.destination);
  scheduler.expectDueAt(lanes.first, next.scheduledAt);
}
