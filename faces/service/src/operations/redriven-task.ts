/** Redriven task: what a dead letter is sent again as. */
import type { NewTask, RetryTask } from "../model/task.ts";

/** Under the key of its source, so that the target can tell; without a row in the key table. */
export function redrivenTask(
  source: RetryTask,
  sentKey: string | undefined,
  taskId: string,
  now: number,
): NewTask {
  return {
    ...source,
    taskId,
    idempotencyKey: source.idempotencyKey ?? sentKey ?? source.taskId,
    deadlineAt: null,
    createdAt: now,
    scheduledAt: now,
    redrivenFrom: source.taskId,
  };
}
