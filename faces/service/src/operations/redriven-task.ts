/** Redriven task: the new task that is created from a dead letter. */
import type { NewTask, RetryTask } from "../model/task.ts";

/**
 * Uses the key of its source, so that the target can deduplicate; it has no row in the key table.
 */
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
