/**
 * Nothing lost: what a client was told is stored exists and comes to an end, once per key.
 */
import { isEnded } from "../../../faces/service/src/model/task.ts";
import { CAUSE_LABEL } from "../callbacks.ts";
import { assertThat, type Checker } from "../history.ts";

export function nothingLost(): Checker {
  const name = "nothing lost";
  const acknowledged = new Set<string>();
  const byKey = new Map<string, string>();
  return {
    name,
    createAcknowledged(_at, task, key, result) {
      if (result.kind === "conflict" || result.kind === "redriven") return;
      const taskId = result.kind === "replayed" ? result.taskId : (task?.taskId ?? "");
      assertThat(name, task !== undefined, () => `${taskId} was acknowledged and is not there`);
      acknowledged.add(taskId);
      if (key === null) return;
      const known = byKey.get(key) ?? taskId;
      byKey.set(key, known);
      assertThat(name, known === taskId, () => `key ${key} stands for ${known} and ${taskId}`);
    },
    finished(store) {
      const all = store.all();
      const ids = new Map(all.map((task) => [task.taskId, task]));
      for (const taskId of acknowledged)
        assertThat(name, ids.has(taskId), () => `${taskId} is gone`);
      const keys = new Map<string, string>();
      for (const { taskId, status, idempotencyKey, redrivenFrom, labels } of all) {
        assertThat(name, isEnded(status), () => `${taskId} has not ended: ${status}`);
        // What is redriven goes out under the key of its source; callbacks have a checker of their own.
        if (idempotencyKey === null || redrivenFrom !== null || CAUSE_LABEL in labels) continue;
        const other = keys.get(idempotencyKey);
        assertThat(name, other === undefined, () => `${taskId} and ${other} share a key`);
        keys.set(idempotencyKey, taskId);
      }
    },
  };
}
