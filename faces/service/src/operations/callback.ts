/**
 * Callback: the task that reports the end of another task to its caller. It is created in the same
 * commit as that end, passes the same guards as any task, and has no callback itself.
 */
import type { NewTask } from "../model/task.ts";
import { type End, endReport, internalTask, summaryOf } from "./internal-task.ts";

/** The task that posts this end to the task's `callbackUrl`, which must not be null. */
export function callbackOf(task: NewTask, end: End, taskId: string): NewTask {
  const { callbackUrl } = task;
  if (callbackUrl === null) throw new Error(`task ${task.taskId} has no callbackUrl`);
  const body = { type: `task.${end.status.toLowerCase()}`, ...summaryOf(task, end) };
  return internalTask(endReport("callback", task, end, { url: callbackUrl, body }), taskId);
}
