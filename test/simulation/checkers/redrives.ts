/**
 * Redrives: checks that only a dead letter becomes a new task, and only once. The dead letter and
 * the new task name each other. A redrive job that reports DONE has redriven its whole set.
 */
import { assertThat, type Checker } from "../history.ts";

export function redrives(): Checker {
  const name = "redriven once";
  const redrivenTasks = new Map<string, string>();
  /** When each dead letter was stored as one. */
  const deadAt = new Map<string, number>();
  return {
    name,
    committed({ at, batch, result, tasksBefore }) {
      for (const [index, { taskId }] of batch.settles.entries()) {
        if (result.settles[index] === "EXHAUSTED") deadAt.set(taskId, at);
      }
      for (const [index, { task }] of batch.creates.entries()) {
        const { taskId, redrivenFrom: source } = task;
        if (source === null || result.creates[index]?.kind !== "created") continue;
        const status = tasksBefore.get(source)?.state.status;
        assertThat(name, status === "EXHAUSTED", () => `${source} was redriven while ${status}`);
        const other = redrivenTasks.get(source);
        assertThat(
          name,
          other === undefined,
          () => `${source} was redriven to ${other} and ${taskId}`,
        );
        redrivenTasks.set(source, taskId);
      }
    },
    createAcknowledged(_id, task, _key, result) {
      if (result.kind !== "redriven") return;
      const { taskId } = result;
      const source = task?.redrivenFrom ?? "";
      const isSame = redrivenTasks.get(source) === taskId;
      assertThat(
        name,
        isSame,
        () => `reported ${taskId} for ${source}, not ${redrivenTasks.get(source)}`,
      );
    },
    finished(store) {
      const all = new Map(store.all().map((task) => [task.taskId, task]));
      for (const { taskId, status, redrivenFrom, redrivenTo } of all.values()) {
        if (redrivenFrom !== null) {
          const to = all.get(redrivenFrom)?.redrivenTo;
          assertThat(
            name,
            to === taskId,
            () => `${taskId} names ${redrivenFrom}, which names ${to}`,
          );
        }
        if (redrivenTo === null) continue;
        const from = all.get(redrivenTo)?.redrivenFrom;
        assertThat(
          name,
          from === taskId,
          () => `${taskId} names ${redrivenTo}, which names ${from}`,
        );
        assertThat(name, status === "EXHAUSTED", () => `${taskId} is redriven but ${status}`);
      }
    },
    redriveDone({ redriveId, createdAt, tenantId }, store) {
      const left = store.all().find((task) => {
        const isInSet = (deadAt.get(task.taskId) ?? Number.POSITIVE_INFINITY) < createdAt;
        return isInSet && task.tenantId === tenantId && task.redrivenTo === null;
      });
      assertThat(name, left === undefined, () => `${redriveId} is done without ${left?.taskId}`);
    },
  };
}
