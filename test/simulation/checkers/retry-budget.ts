/**
 * Retry budget: checks a node's retries in every window that ends at a retry. Retries that have not
 * succeeded are at most a share of the first attempts plus a minimum. This holds for each
 * destination under one document, and for all destinations together. A node with its own store
 * restores the guard state that an earlier process saved. The bound then holds across boots, except
 * for retries that were not saved yet.
 */
import { SERVICE_BUDGET_DOCUMENT } from "../../../faces/service/src/engine/guard-saver.ts";
import {
  GUARD_DOCUMENT,
  type UnversionedDocument,
} from "../../../faces/service/src/model/document-table.ts";
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Sent } from "../history.ts";

interface Ratio {
  readonly ratio: number;
  readonly minPerSecond: number;
  readonly windowMs: number;
}

interface Retry {
  readonly at: number;
  readonly key: string;
  readonly document: string | null;
}

/** The requests to one destination, or to all. */
interface Traffic {
  readonly firsts: number[];
  retries: Retry[];
  firstsSucceeded: number;
  /** When the guard state was last saved. */
  savedAt: number;
}

export interface RetryBudgetOptions {
  /** The budget of a node for all destinations. */
  readonly service: Pick<Ratio, "ratio" | "minPerSecond">;
  /** Guard state is saved, and restored at boot. */
  readonly isSingle: boolean;
  /** Several tenants share the budget: together they may use a seventh more. */
  readonly isShared: boolean;
}

const SERVICE_WINDOW_MS = 10_000;
const SERVICE = "(service)";

const sumOf = (numbers: Iterable<number>) => [...numbers].reduce((sum, one) => sum + one, 0);

const retryKeyOf = ({ task }: Sent) => `${task.taskId}/${task.attemptNumber}`;

export function retryBudget({ service, isSingle, isShared }: RetryBudgetOptions): Checker {
  const name = "retry budget kept";
  const serviceRatio: Ratio = { ...service, windowMs: SERVICE_WINDOW_MS };
  const traffic = new Map<string, Traffic>();
  const succeeded = new Set<string>();
  /** How long the machine of each process has slept. */
  const slept = new Map<string, number>();
  let currentNodeId = "";
  let boots = 0;

  const scopeKey = (nodeId: string, rest: string) => (isSingle ? rest : `${nodeId}/${rest}`);

  function trafficOf(scope: string): Traffic {
    let one = traffic.get(scope);
    if (one === undefined) {
      one = { firsts: [], retries: [], firstsSucceeded: 0, savedAt: 0 };
      traffic.set(scope, one);
    }
    return one;
  }

  /** A new process knows only what was saved. */
  function recordBoot(nodeId: string): void {
    if (!isSingle || nodeId === currentNodeId) return;
    currentNodeId = nodeId;
    boots++;
    for (const one of traffic.values()) {
      one.retries = one.retries.filter(({ at }) => at < one.savedAt);
    }
  }

  const countUnsuccessful = (retries: readonly Retry[]) =>
    retries.filter(({ key }) => !succeeded.has(key)).length;

  /**
   * The time of a node whose machine slept was behind, and has caught up or not: a window of the
   * node is longer or shorter than one of the observer, at most by the time of all sleeps.
   */
  function checkRatio(
    scope: string,
    { at, nodeId }: Sent,
    retries: readonly Retry[],
    bound: Ratio,
    hasReserve = false,
  ): void {
    const since = at - bound.windowMs;
    const sleptMs = isSingle ? sumOf(slept.values()) : (slept.get(nodeId) ?? 0);
    const firsts = trafficOf(scope).firsts.filter((first) => first > since - sleptMs).length;
    const counted = countUnsuccessful(retries.filter((retry) => retry.at > since + sleptMs));
    const limit = bound.ratio * firsts + (bound.minPerSecond * bound.windowMs) / 1000;
    const max = hasReserve ? limit + Math.max(1, Math.ceil(limit / 7)) : limit;
    assertThat(name, counted <= max, () => `${scope}: ${counted} retries, ${max} allowed`);
  }

  function checkDestination(scope: string, event: Sent): void {
    const { retryBudget: budget } = documentOf(event.document);
    const { retries, firstsSucceeded } = trafficOf(scope);
    const under = retries.filter(({ document }) => document === event.document);
    if (budget?.kind === "RATIO") checkRatio(scope, event, under, budget);
    if (budget?.kind !== "TOKENS") return;
    // One retry per second, and one at each boot, is sent without a token as a probe.
    const elapsedMs = event.at - (under[0]?.at ?? event.at);
    const free = 1 + boots + Math.floor(elapsedMs / 1000);
    const spent = budget.costPerRetry * Math.max(0, countUnsuccessful(under) - free);
    const max = budget.maxTokens + budget.refillPerSuccess * firstsSucceeded;
    assertThat(name, spent <= max, () => `${scope}: ${spent} tokens spent, ${max} available`);
  }

  function recordSaves(documents: readonly UnversionedDocument[], at: number): void {
    for (const { kind, id } of documents) {
      if (kind === GUARD_DOCUMENT) trafficOf(id).savedAt = at;
      if (kind === SERVICE_BUDGET_DOCUMENT.kind) trafficOf(SERVICE).savedAt = at;
    }
  }

  return {
    name,
    committed({ at, batch }) {
      recordBoot(batch.nodeId);
      // Not `batch.now`: after a sleep, the node's time is behind that of the requests.
      if (isSingle) recordSaves(batch.documents, at);
    },
    sent(event) {
      const { at, nodeId, task, document } = event;
      recordBoot(nodeId);
      slept.set(nodeId, event.sleptMs);
      const scopes = [scopeKey(nodeId, task.destination), scopeKey(nodeId, SERVICE)] as const;
      const isRetry = task.attemptNumber > 1;
      for (const scope of scopes) {
        const { firsts, retries } = trafficOf(scope);
        if (isRetry) retries.push({ at, key: retryKeyOf(event), document });
        else firsts.push(at);
      }
      if (!isRetry) return;
      checkDestination(scopes[0], event);
      checkRatio(scopes[1], event, trafficOf(scopes[1]).retries, serviceRatio, isShared);
    },
    attemptEnded(event, _endedAt, isSuccess) {
      if (!isSuccess) return;
      const { nodeId, task } = event;
      if (task.attemptNumber > 1) succeeded.add(retryKeyOf(event));
      else trafficOf(scopeKey(nodeId, task.destination)).firstsSucceeded++;
    },
    nodeStopped() {
      if (!isSingle) return;
      for (const [scope, { retries, savedAt }] of traffic) {
        const last = retries.at(-1)?.at ?? 0;
        // Without a budget for all destinations there is nothing to save.
        if (scope === SERVICE && savedAt === 0) continue;
        assertThat(name, last <= savedAt, () => `${scope}: stopped without saving its retries`);
      }
    },
  };
}
