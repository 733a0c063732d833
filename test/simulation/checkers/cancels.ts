/**
 * Cancels: linearizable. Once a client was told CANCELLED, nothing leaves any more and the task
 * stays cancelled; once it was told that a cancel is requested, no further attempt is claimed, and
 * the task ends SUCCEEDED or CANCELLED.
 */
import { assertThat, type Checker } from "../history.ts";

export function cancels(): Checker {
  const name = "cancel is linearizable";
  const canceled = new Set<string>();
  const requested = new Set<string>();
  const conflicts = new Map<string, string>();
  return {
    name,
    committed({ result }) {
      for (const { tasks } of result.claims) {
        for (const { taskId } of tasks) {
          const isOver = canceled.has(taskId) || requested.has(taskId);
          assertThat(name, !isOver, () => `${taskId} was claimed after its cancel`);
        }
      }
    },
    sent({ task }) {
      assertThat(name, !canceled.has(task.taskId), () => `${task.taskId} left after its cancel`);
    },
    cancelAcknowledged(_at, taskId, result) {
      if (result.kind === "cancelled") canceled.add(taskId);
      if (result.kind === "requested") requested.add(taskId);
      if (result.kind === "ended") conflicts.set(taskId, result.status);
    },
    finished(store) {
      for (const { taskId, status } of store.all()) {
        const isWrong =
          (canceled.has(taskId) && status !== "CANCELLED") ||
          (requested.has(taskId) && status !== "CANCELLED" && status !== "SUCCEEDED") ||
          (conflicts.get(taskId) ?? status) !== status;
        assertThat(name, !isWrong, () => `${taskId} ended ${status}`);
      }
    },
  };
}
