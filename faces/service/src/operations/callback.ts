/**
 * Callback: the task that reports the end of another task to its caller. It is created in the same
 * commit as that end, passes the same guards as any task, and has no callback itself.
 */
import type { CancelRequest, TaskRef } from "../model/batch.ts";
import type { NewId } from "../model/ids.ts";
import { partitionByteOf } from "../model/partition.ts";
import type { NewTask, RetryTask } from "../model/task.ts";
import { type End, endReport, internalTask, summaryOf } from "./internal-task.ts";

/** The task that posts this end to the task's `callbackUrl`, which must not be null. */
export function callbackOf(task: NewTask, end: End, taskId: string): NewTask {
  const { callbackUrl } = task;
  if (callbackUrl === null) throw new Error(`task ${task.taskId} has no callbackUrl`);
  const body = { type: `task.${end.status.toLowerCase()}`, ...summaryOf(task, end) };
  return internalTask(endReport("callback", task, end, { url: callbackUrl, body }), taskId);
}

interface CancelParts {
  readonly engine: { now(): number };
  readonly newId: NewId;
}

/** Includes the callback task that the cancel creates. A task's callback URL never changes. */
export function cancelRequestOf(
  { engine, newId }: CancelParts,
  { tenantId, taskId }: TaskRef,
  task: RetryTask | null,
): CancelRequest {
  if (task === null || task.callbackUrl === null) return { tenantId, taskId };
  const now = engine.now();
  const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
  const id = newId(now, partitionByteOf(taskId));
  return { tenantId, taskId, onEnd: { CANCELLED: [callbackOf(task, end, id)] } };
}
