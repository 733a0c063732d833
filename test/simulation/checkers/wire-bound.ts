/**
 * Wire bound: checks that a request is sent only for a committed claim and once per claim, and that
 * a task is sent at most `maxAttempts` times, crashes included.
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
      assertThat(name, committed.delete(key), () => `${key} was sent without its own claim`);
      const count = (sent.get(task.taskId) ?? 0) + 1;
      sent.set(task.taskId, count);
      const maxAttempts = maxAttemptsOf(task.policyId);
      assertThat(
        name,
        count <= maxAttempts,
        () => `${task.taskId} was sent ${count} times, ${maxAttempts} allowed`,
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
