/**
 * Follow-ups: the tasks that the service creates in the same commit as the end of a task: the callback
 * to its caller, and the dead letter that is posted to the `deadLetterUrl` of its destination. They
 * pass the same guards as any task, and create no further ones.
 */
import type { StopReason } from "@redrive/core";
import { attemptsAfter } from "../engine/run/settlement.ts";
import type { OnEnd, Settle, StartedTask } from "../model/batch.ts";
import type { DeliverySettings } from "../model/delivery/delivery-settings.ts";
import type { NewId } from "../model/ids.ts";
import { partitionByteOf } from "../model/partition.ts";
import type { EndedStatus, NewTask } from "../model/task.ts";
import { callbackOf } from "./callback.ts";
import { deadLetterForwardOf } from "./dead-letter-forward.ts";
import { type End, isInternal } from "./internal-task.ts";

/** The follow-ups for each way in which this settle can end the task; a cancel may win. */
export function followUpsOf(
  task: StartedTask,
  settle: Settle,
  settings: DeliverySettings,
  now: number,
  newId: NewId,
): OnEnd | undefined {
  const isForwarded = settings.deadLetterUrl !== null && settle.status === "EXHAUSTED";
  if (task.callbackUrl === null && !isForwarded) return undefined;
  if (isInternal(task)) return undefined;
  const id = () => newId(now, partitionByteOf(task.taskId));
  const of = (status: EndedStatus, reason: StopReason | null) =>
    tasksFor(task, endOf(task, settle, { status, reason, finishedAt: now }), settings, id);
  const cancelled = { CANCELLED: of("CANCELLED", "aborted") };
  const { status, reason } = settle;
  return status === "PENDING" ? cancelled : { ...cancelled, [status]: of(status, reason) };
}

function tasksFor(
  task: NewTask,
  end: End,
  { deadLetterUrl }: DeliverySettings,
  newTaskId: () => string,
): readonly NewTask[] {
  const tasks: NewTask[] = [];
  if (task.callbackUrl !== null) tasks.push(callbackOf(task, end, newTaskId()));
  if (deadLetterUrl !== null && end.status === "EXHAUSTED") {
    tasks.push(deadLetterForwardOf(task, end, deadLetterUrl, newTaskId()));
  }
  return tasks;
}

function endOf(
  task: StartedTask,
  settle: Settle,
  end: Pick<End, "status" | "reason" | "finishedAt">,
): End {
  const { attempt } = settle;
  return {
    attemptNumber: attemptsAfter(task, settle),
    lastStatus: attempt === null ? task.lastStatus : attempt.responseStatus,
    ...end,
  };
}
