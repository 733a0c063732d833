/**
 * Redrives: only a dead letter is made into a new task, and once: it names the new one, which names
 * it. A redrive job that says it is done has left nothing of its set behind.
 */
import { assertThat, type Checker } from "../history.ts";

export function redrives(): Checker {
  const name = "redriven once";
  const redrivenTasks = new Map<string, string>();
  /** When each dead letter was one in the store. */
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
        const status = tasksBefore.get(source)?.status;
        assertThat(name, status === "EXHAUSTED", () => `${source} was redriven ${status}`);
        const other = redrivenTasks.get(source);
        assertThat(name, other === undefined, () => `${source} is ${other} and ${taskId} again`);
        redrivenTasks.set(source, taskId);
      }
    },
    createAcknowledged(_at, task, _key, result) {
      if (result.kind !== "redriven") return;
      const { taskId } = result;
      const source = task?.redrivenFrom ?? "";
      const isSame = redrivenTasks.get(source) === taskId;
      assertThat(
        name,
        isSame,
        () => `told ${taskId} for ${source}, not ${redrivenTasks.get(source)}`,
      );
    },
    finished(store) {
      const all = new Map(store.all().map((task) => [task.taskId, task]));
      for (const { taskId, status, redrivenFrom, redrivenTo } of all.values()) {
        if (redrivenFrom !== null) {
          const to = all.get(redrivenFrom)?.redrivenTo;
          assertThat(name, to === taskId, () => `${taskId} is of ${redrivenFrom}, that has ${to}`);
        }
        if (redrivenTo === null) continue;
        const from = all.get(redrivenTo)?.redrivenFrom;
        assertThat(name, from === taskId, () => `${taskId} went to ${redrivenTo}, of ${from}`);
        assertThat(name, status === "EXHAUSTED", () => `${taskId} is ${status} and redriven`);
      }
    },
    redriveDone({ redriveId, createdAt }, store) {
      const left = store.all().find(({ taskId, redrivenTo }) => {
        const isInSet = (deadAt.get(taskId) ?? Number.POSITIVE_INFINITY) < createdAt;
        return isInSet && redrivenTo === null;
      });
      assertThat(name, left === undefined, () => `${redriveId} is done without ${left?.taskId}`);
    },
  };
}
