/**
 * Retry budget: in every window that ends at a retry, a node's retries that have not succeeded are
 * at most a share of its first attempts, and a floor: those to one destination, and all together.
 */
import { assertThat, type Checker } from "../history.ts";

interface Bound {
  readonly ratio: number;
  readonly minPerSecond: number;
}

interface Traffic {
  readonly firsts: number[];
  readonly retries: { readonly at: number; readonly key: string }[];
}

/** The defaults of a destination in the service. */
const OWN: Bound = { ratio: 0.1, minPerSecond: 1 };
const WINDOW_MS = 10_000;

/** `whole`: the budget that the nodes were given for all destinations. */
export function retryBudget(whole: Bound): Checker {
  const name = "retry budget kept";
  const traffic = new Map<string, Traffic>();
  const succeeded = new Set<string>();

  function note(place: string, at: number, retry: string | undefined, bound: Bound): void {
    const { firsts, retries } = traffic.get(place) ?? { firsts: [], retries: [] };
    traffic.set(place, { firsts, retries });
    if (retry === undefined) {
      firsts.push(at);
      return;
    }
    retries.push({ at, key: retry });
    while ((retries[0]?.at ?? at) <= at - WINDOW_MS) retries.shift();
    while ((firsts[0] ?? at) <= at - WINDOW_MS) firsts.shift();
    const counted = retries.filter(({ key }) => !succeeded.has(key)).length;
    const most = bound.ratio * firsts.length + (bound.minPerSecond * WINDOW_MS) / 1000;
    assertThat(name, counted <= most, () => `${place}: ${counted} retries, ${most} allowed`);
  }

  return {
    name,
    sent({ at, nodeId, task }) {
      const isRetry = task.attemptNumber > 1;
      const retry = isRetry ? `${task.taskId}/${task.attemptNumber}` : undefined;
      note(`${nodeId}/${task.destination}`, at, retry, OWN);
      note(nodeId, at, retry, whole);
    },
    ended({ task }, _endedAt, isSuccess) {
      if (isSuccess) succeeded.add(`${task.taskId}/${task.attemptNumber}`);
    },
  };
}
