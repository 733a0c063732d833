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
      const isAllowed = cause === undefined || ended.has(cause);
      assertThat(name, isAllowed, () => `${task.taskId} left before ${cause} had ended`);
    },
    finished(store) {
      const all = store.all();
      const callbacksByCause = new Map<string, RetryTask[]>();
      for (const task of all) {
        const cause = task.labels[CAUSE_LABEL];
        // A callback that died and was redriven is the same one again.
        if (cause !== undefined && task.redrivenFrom === null)
          callbacksByCause.set(cause, [...(callbacksByCause.get(cause) ?? []), task]);
      }
      for (const { taskId, status, callbackUrl } of all) {
        const created = callbacksByCause.get(taskId) ?? [];
        callbacksByCause.delete(taskId);
        const expected = callbackUrl !== null && isEnded(status) ? 1 : 0;
        const found = created.length;
        assertThat(
          name,
          found === expected,
          () => `${taskId} has ${found} callbacks, not ${expected}`,
        );
        for (const callback of created) {
          const reported = statusIn(callback);
          assertThat(
            name,
            reported === status,
            () => `${taskId} ended ${status}, told as ${reported}`,
          );
        }
      }
      assertThat(
        name,
        callbacksByCause.size === 0,
        () => `callbacks without a cause: ${[...callbacksByCause.keys()]}`,
      );
    },
  };
}

function statusIn({ body }: RetryTask): EndedStatus {
  return JSON.parse(new TextDecoder().decode(body ?? new Uint8Array())).status;
}
