/**
 * Fleet limits: checks at the targets that all nodes together keep the limits of a destination:
 * attempts at once, the rate, and retries that have not succeeded. `limits.ts` and `retry-budget.ts`
 * check each node.
 *
 * When a document changes, nodes still hold shares of the old limits, at most as long as a lease.
 */
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Committed, type Sent } from "../history.ts";

/** A share is valid as long as the lease of its node, and an attempt takes a few seconds. */
const SHARE_MS = 15_000;

/** A reserved token may be used a second after its instant, and is claimed a little ahead. */
const LATE_TOKEN_MS = 1100;
/** A smaller minimum of a retry budget may be reserved retry by retry. */
const MAX_NODES = 10;
/** The window in which the rate is counted. */
const RATE_WINDOW_MS = 10_000;

interface Document {
  readonly text: string | null;
  readonly since: number;
}

interface Retry {
  readonly at: number;
  readonly key: string;
}

const attemptKey = ({ task }: Sent) => `${task.taskId}/${task.attemptNumber}`;
const scopeOf = ({ task }: Sent) => `${task.tenantId}/${task.destination}`;

export function fleetLimits(): Checker {
  const name = "limits of the fleet kept";
  const documents = new Map<string, Document[]>();
  const inFlight = new Map<string, Set<Sent>>();
  const sentAt = new Map<string, number[]>();
  const firsts = new Map<string, number[]>();
  const retries = new Map<string, Retry[]>();
  const succeeded = new Set<string>();
  let hasSlept = false;

  const documentsOf = (scope: string) => documents.get(scope) ?? [{ text: null, since: 0 }];
  const listOf = <T>(lists: Map<string, T[]>, scope: string): T[] => {
    const list = lists.get(scope) ?? [];
    lists.set(scope, list);
    return list;
  };

  /** The documents that were current since that instant. */
  function documentsSince(scope: string, since: number): readonly (string | null)[] {
    const all = documentsOf(scope);
    return all
      .filter((_, at) => (all[at + 1]?.since ?? Number.POSITIVE_INFINITY) > since)
      .map(({ text }) => text);
  }

  function recordDocuments({ batch, result, at }: Committed): void {
    for (const [index, { row }] of batch.destinations.entries()) {
      const scope = `${row.tenantId}/${row.name}`;
      const before = documentsOf(scope);
      if (result.destinations[index] !== null || before.at(-1)?.text === row.document) continue;
      documents.set(scope, [...before, { text: row.document, since: at }]);
    }
  }

  function checkSlots(scope: string, at: number): void {
    const count = inFlight.get(scope)?.size ?? 0;
    const limits = documentsSince(scope, at - SHARE_MS).map(
      (text) => documentOf(text).concurrency?.max ?? Number.POSITIVE_INFINITY,
    );
    const max = Math.max(...limits);
    assertThat(name, count <= max, () => `${scope}: ${count} in flight, ${max} allowed`);
  }

  function checkRate(scope: string, at: number): void {
    const texts = documentsSince(scope, at - RATE_WINDOW_MS - SHARE_MS);
    const rate = documentOf(texts[0] ?? null).rate?.limit;
    // A document that has just changed allows the bursts of both.
    if (texts.length > 1 || rate === undefined) return;
    const allowed = (rate.perSecond * (RATE_WINDOW_MS + LATE_TOKEN_MS)) / 1000 + 2 * rate.burst + 1;
    const all = listOf(sentAt, scope);
    // The time of a node that slept is behind: its claim may be older than those that were sent before,
    // and belongs to every window that ends after it.
    const ends = all.filter((one) => one >= at && one < at + RATE_WINDOW_MS);
    for (const end of new Set(ends)) {
      const count = all.filter((one) => one > end - RATE_WINDOW_MS && one <= end).length;
      assertThat(name, count <= allowed, () => `${scope}: ${count} in 10 s, ${allowed} allowed`);
    }
  }

  /**
   * Each node has its own window, which ends with its latest retry. So first attempts count for twice
   * as long, and a retry that was reserved one by one may be sent up to a window late.
   */
  function checkRetries(scope: string, { at, document }: Sent): void {
    const budget = documentOf(document).retryBudget;
    if (budget?.kind !== "RATIO" || hasSlept) return;
    if (documentsSince(scope, at - 2 * budget.windowMs - SHARE_MS).length > 1) return;
    const since = at - budget.windowMs;
    const own = listOf(retries, scope).filter((retry) => retry.at > since);
    const counted = own.filter(({ key }) => !succeeded.has(key)).length;
    const earliest = since - budget.windowMs;
    const started = listOf(firsts, scope).filter((first) => first > earliest).length;
    const minimum = (budget.minPerSecond * budget.windowMs) / 1000;
    const max = budget.ratio * started + (minimum < MAX_NODES ? 2 : 1) * minimum;
    assertThat(name, counted <= max, () => `${scope}: ${counted} retries, ${max} allowed`);
  }

  return {
    name,
    committed: recordDocuments,
    sent(event) {
      const { at, task, sleptMs } = event;
      const scope = scopeOf(event);
      hasSlept ||= sleptMs > 0;
      inFlight.set(scope, (inFlight.get(scope) ?? new Set()).add(event));
      listOf(sentAt, scope).push(task.claimedAt);
      checkSlots(scope, at);
      checkRate(scope, task.claimedAt);
      if (task.attemptNumber === 1) listOf(firsts, scope).push(at);
      else {
        listOf(retries, scope).push({ at, key: attemptKey(event) });
        checkRetries(scope, event);
      }
    },
    /** An attempt that a stopping node has aborted has ended too. */
    resultReceived(event) {
      inFlight.get(scopeOf(event))?.delete(event);
    },
    attemptEnded(event, _endedAt, isSuccess) {
      inFlight.get(scopeOf(event))?.delete(event);
      if (isSuccess && event.task.attemptNumber > 1) succeeded.add(attemptKey(event));
    },
  };
}
