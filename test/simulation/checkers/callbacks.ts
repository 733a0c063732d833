/**
 * Callbacks: every end of a task that asks to be told makes exactly one callback, in the same commit
 * and with what it ended as; nothing else makes one, and none leaves before its cause has ended.
 */
import {
  type EndedStatus,
  isEnded,
  type RetryTask,
} from "../../../faces/service/src/model/task.ts";
import { CAUSE_LABEL } from "../callbacks.ts";
import { assertThat, type Checker } from "../history.ts";

export function callbacks(): Checker {
  const name = "one callback for each end";
  const ended = new Set<string>();
  return {
    name,
    committed({ batch, result }) {
      for (const [index, { taskId }] of batch.settles.entries()) {
        const status = result.settles[index];
        if (status !== "fenced" && status !== "PENDING") ended.add(taskId);
      }
      for (const [index, { taskId }] of batch.cancels.entries()) {
        if (result.cancels[index]?.kind === "cancelled") ended.add(taskId);
      }
    },
    sent({ task }) {
      const cause = task.labels[CAUSE_LABEL];
      const isFirst = cause === undefined || ended.has(cause);
      assertThat(name, isFirst, () => `${task.taskId} left before ${cause} had ended`);
    },
    finished(store) {
      const all = store.all();
      const told = new Map<string, RetryTask[]>();
      for (const task of all) {
        const cause = task.labels[CAUSE_LABEL];
        // A callback that died and was redriven is the same one again.
        if (cause !== undefined && task.redrivenFrom === null)
          told.set(cause, [...(told.get(cause) ?? []), task]);
      }
      for (const { taskId, status, callbackUrl } of all) {
        const made = told.get(taskId) ?? [];
        told.delete(taskId);
        const wanted = callbackUrl !== null && isEnded(status) ? 1 : 0;
        const found = made.length;
        assertThat(name, found === wanted, () => `${taskId} has ${found} callbacks, not ${wanted}`);
        for (const one of made) {
          const said = statusIn(one);
          assertThat(name, said === status, () => `${taskId} ended ${status}, told as ${said}`);
        }
      }
      assertThat(name, told.size === 0, () => `callbacks without a cause: ${[...told.keys()]}`);
    },
  };
}

function statusIn({ body }: RetryTask): EndedStatus {
  return JSON.parse(new TextDecoder().decode(body ?? new Uint8Array())).status;
}
