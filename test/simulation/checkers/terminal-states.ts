/**
 * Terminal states: what has ended stays as it ended.
 */
import { isEnded, type TaskStatus } from "../../../faces/service/src/model/task.ts";
import { assertThat, type Checker } from "../history.ts";

export function terminalStates(): Checker {
  const name = "terminal states absorb";
  const ended = new Map<string, TaskStatus>();
  const record = (taskId: string, status: TaskStatus) => {
    const before = ended.get(taskId);
    assertThat(
      name,
      before === undefined || before === status,
      () => `${taskId}: ${before}, ${status}`,
    );
    if (isEnded(status)) ended.set(taskId, status);
  };
  return {
    name,
    committed({ batch, result }) {
      for (const [index, { taskId }] of batch.settles.entries()) {
        const status = result.settles[index];
        if (status !== undefined && status !== "fenced") record(taskId, status);
      }
      for (const [index, { taskId }] of batch.cancels.entries()) {
        if (result.cancels[index]?.kind === "cancelled") record(taskId, "CANCELLED");
      }
      for (const { tasks } of result.claims) {
        for (const { taskId } of tasks) record(taskId, "IN_FLIGHT");
      }
    },
    finished(store) {
      for (const { taskId, status } of store.all()) record(taskId, status);
    },
  };
}
