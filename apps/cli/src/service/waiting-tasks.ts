/** Waiting tasks: which of the followed tasks wait, and which of them are due and do not start. */
import type { TaskEvent } from "../print/event-text.ts";

/** Of more tasks, the oldest ones are not looked up. */
const MAX_TASKS = 250;

/** A task that starts within this time is not held. */
const PATIENCE_MS = 1000;

/** A task that is still held is looked up again after this time. */
const REPEAT_MS = 10_000;

export class WaitingTasks {
  /** When to look each task up, by its id; monotonic ms. */
  readonly #lookAtMs = new Map<string, number>();

  /** The instants of the service are compared with each other only, because its clock may differ. */
  record({ type, taskId, at, nextAttemptAt }: TaskEvent, nowMs: number): void {
    if (taskId === undefined) return;
    this.#lookAtMs.delete(taskId);
    const waits =
      type === "task.created" || type === "attempt.failed" || type === "attempt.abandoned";
    if (!waits) return;
    const dueMs = nowMs + Math.max(0, (nextAttemptAt ?? at) - at);
    this.#lookAtMs.set(taskId, dueMs + PATIENCE_MS);
    if (this.#lookAtMs.size <= MAX_TASKS) return;
    const [oldest = ""] = this.#lookAtMs.keys();
    this.#lookAtMs.delete(oldest);
  }

  has(taskId: string): boolean {
    return this.#lookAtMs.has(taskId);
  }

  /** The tasks to look up now, at most `max`. Each is returned again later if it still waits. */
  overdue(nowMs: number, max: number): readonly string[] {
    const found: string[] = [];
    for (const [taskId, atMs] of this.#lookAtMs) {
      if (found.length === max) break;
      if (atMs > nowMs) continue;
      found.push(taskId);
      this.#lookAtMs.set(taskId, nowMs + REPEAT_MS);
    }
    return found;
  }
}
