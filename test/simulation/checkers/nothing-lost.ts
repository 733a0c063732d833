/** Nothing lost: checks that every acknowledged task exists and ends, once per idempotency key. */
import { isEnded } from "../../../faces/service/src/model/task.ts";
import { CAUSE_LABEL } from "../callbacks.ts";
import { assertThat, type Checker } from "../history.ts";

export function nothingLost(): Checker {
  const name = "nothing lost";
  const acknowledged = new Set<string>();
  const byKey = new Map<string, string>();
  /** Retention may have removed them since. */
  const ended = new Set<string>();
  return {
    name,
    committed({ batch, result }) {
      for (const [index, { taskId }] of batch.settles.entries()) {
        const settled = result.settles[index];
        if (settled !== "PENDING" && settled !== "fenced") ended.add(taskId);
      }
      for (const [index, { taskId }] of batch.cancels.entries()) {
        if (result.cancels[index]?.kind === "cancelled") ended.add(taskId);
      }
    },
    createAcknowledged(taskId, task, key, result) {
      if (result.kind === "conflict" || result.kind === "redriven") return;
      const exists = task !== undefined || ended.has(taskId);
      assertThat(name, exists, () => `${taskId} was acknowledged but does not exist`);
      acknowledged.add(taskId);
      if (key === null) return;
      const known = byKey.get(key) ?? taskId;
      byKey.set(key, known);
      assertThat(name, known === taskId, () => `key ${key} names both ${known} and ${taskId}`);
    },
    finished(store) {
      const all = store.all();
      const ids = new Map(all.map((task) => [task.taskId, task]));
      for (const taskId of acknowledged)
        assertThat(name, ids.has(taskId) || ended.has(taskId), () => `${taskId} is gone`);
      const keys = new Map<string, string>();
      for (const { taskId, status, idempotencyKey, redrivenFrom, labels } of all) {
        assertThat(name, isEnded(status), () => `${taskId} has not ended: ${status}`);
        // A redriven task keeps the key of its source. Callbacks have their own checker.
        if (idempotencyKey === null || redrivenFrom !== null || CAUSE_LABEL in labels) continue;
        const other = keys.get(idempotencyKey);
        assertThat(name, other === undefined, () => `${taskId} and ${other} share a key`);
        keys.set(idempotencyKey, taskId);
      }
    },
  };
}
