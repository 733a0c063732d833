/**
 * Prompt starts: checks that a due task of an idle destination, which no guard holds, is sent soon,
 * whichever node has stored it. After the faults have stopped and the nodes have found each other.
 */
import { assertThat, type Checker } from "../history.ts";

/** The bound: a read of what is due, the first share of a destination, and a commit. */
const MAX_MS = 2000;

/** `watched`: the tenant whose tasks have such destinations. */
export function promptStarts(watched: string): Checker {
  const name = "prompt starts";
  const dueAt = new Map<string, number>();
  return {
    name,
    createAcknowledged(_id, task) {
      if (task?.tenantId === watched) dueAt.set(task.taskId, task.scheduledAt);
    },
    sent({ at, task }) {
      const due = dueAt.get(task.taskId);
      if (due === undefined || task.attemptNumber > 1) return;
      dueAt.delete(task.taskId);
      assertThat(name, at - due <= MAX_MS, () => `${task.taskId} was sent ${at - due} ms late`);
    },
    finished() {
      const [late] = dueAt.keys();
      assertThat(name, late === undefined, () => `${late} was never sent`);
    },
  };
}
