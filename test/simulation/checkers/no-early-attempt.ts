/**
 * No early attempt: checks that no request is sent before it is due, or after the task's deadline
 * or total budget, and that no attempt exceeds its timeout.
 */
import { assertThat, type Checker } from "../history.ts";

/** The longest time from a reading of the store's clock to its result. */
const MAX_LAG_MS = 5000;

export function noEarlyAttempt(): Checker {
  const name = "no early or late attempt";
  const dueAt = new Map<string, number>();
  return {
    name,
    committed({ batch, result, at }) {
      for (const [index, settle] of batch.settles.entries()) {
        if (result.settles[index] === "PENDING") dueAt.set(settle.taskId, settle.nextAttemptAt);
      }
      for (const [index, { taskId }] of batch.retryNows.entries()) {
        if (result.retryNows[index]?.kind === "rescheduled")
          dueAt.set(taskId, Math.min(at, dueAt.get(taskId) ?? at));
      }
    },
    sent({ at, nodeAt, task, policy, timeoutMs, sleptMs }) {
      const { taskId, scheduledAt, deadlineAt } = task;
      const due = dueAt.get(taskId) ?? Math.min(scheduledAt, task.nextAttemptAt);
      assertThat(name, at >= due, () => `${taskId} was sent ${due - at} ms early`);
      const endAt = Math.min(
        scheduledAt + policy.totalBudgetMs,
        deadlineAt ?? Number.POSITIVE_INFINITY,
      );
      // The time of the node is behind by a round trip, and after a sleep until it follows the clock.
      const lagMs = at - nodeAt;
      assertThat(name, lagMs >= 0, () => `the time of a node is ${-lagMs} ms ahead`);
      const isNear = lagMs <= sleptMs + MAX_LAG_MS;
      assertThat(name, isNear, () => `the time of a node is ${lagMs} ms behind`);
      assertThat(name, nodeAt < endAt, () => `${taskId} was sent ${at - endAt} ms late`);
      const latestEnd = nodeAt + timeoutMs;
      assertThat(name, latestEnd <= endAt, () => `${taskId} may end ${latestEnd - endAt} ms late`);
    },
    attemptEnded({ at, task, policy }, endedAt) {
      const tookMs = endedAt - at;
      const maxMs = policy.attemptTimeoutMs;
      assertThat(name, tookMs <= maxMs, () => `${task.taskId} took ${tookMs} ms, ${maxMs} allowed`);
    },
  };
}
