/**
 * Retry budget: in every window that ends at a retry, a node's retries that have not succeeded are
 * at most a share of its first attempts, and a floor.
 */
import { assertThat, type Checker } from "../history.ts";

interface Traffic {
  readonly firsts: number[];
  readonly retries: { readonly at: number; readonly key: string }[];
}

/** The defaults of a destination in the service. */
const RATIO = 0.1;
const PER_SECOND = 1;
const WINDOW_MS = 10_000;

export function retryBudget(): Checker {
  const name = "retry budget kept";
  const traffic = new Map<string, Traffic>();
  const succeeded = new Set<string>();
  return {
    name,
    sent({ at, nodeId, task }) {
      const place = `${nodeId}/${task.destination}`;
      const { firsts, retries } = traffic.get(place) ?? { firsts: [], retries: [] };
      traffic.set(place, { firsts, retries });
      if (task.attemptNumber === 1) {
        firsts.push(at);
        return;
      }
      retries.push({ at, key: `${task.taskId}/${task.attemptNumber}` });
      while ((retries[0]?.at ?? at) <= at - WINDOW_MS) retries.shift();
      while ((firsts[0] ?? at) <= at - WINDOW_MS) firsts.shift();
      const counted = retries.filter(({ key }) => !succeeded.has(key)).length;
      const most = RATIO * firsts.length + (PER_SECOND * WINDOW_MS) / 1000;
      assertThat(name, counted <= most, () => `${place}: ${counted} retries, ${most} allowed`);
    },
    ended({ task }, _endedAt, isSuccess) {
      if (isSuccess) succeeded.add(`${task.taskId}/${task.attemptNumber}`);
    },
  };
}
