/**
 * Wire bound: a request leaves only for a claim that is committed, once per claim, and at most
 * `maxAttempts` of them leave for a task, crashes included.
 */
import type { StartedTask } from "../../../faces/service/src/model/batch.ts";
import { assertThat, type Checker } from "../history.ts";

export function wireBound(maxAttemptsOf: (policyId: string) => number): Checker {
  const name = "wire bound";
  const committed = new Set<string>();
  const sent = new Map<string, number>();
  const keyOf = ({ taskId, claimEpoch }: StartedTask) => `${taskId}/${claimEpoch}`;
  return {
    name,
    committed({ result }) {
      for (const create of result.creates) {
        if (create.kind === "created" && create.started) committed.add(keyOf(create.started));
      }
      for (const { tasks } of result.claims) for (const task of tasks) committed.add(keyOf(task));
    },
    sent({ task }) {
      const key = keyOf(task);
      assertThat(name, committed.delete(key), () => `${key} left without a claim of its own`);
      const count = (sent.get(task.taskId) ?? 0) + 1;
      sent.set(task.taskId, count);
      const maxAttempts = maxAttemptsOf(task.policyId);
      assertThat(
        name,
        count <= maxAttempts,
        () => `${task.taskId} was sent ${count} times, of ${maxAttempts}`,
      );
      const { attemptNumber } = task;
      assertThat(
        name,
        attemptNumber >= count,
        () => `${key} is attempt ${attemptNumber}, not ${count}`,
      );
    },
  };
}
