/**
 * Retry budget: in every window that ends at a retry, the retries of a node that have not succeeded
 * are at most a share of its first attempts plus a floor. This holds per destination and document,
 * and for all destinations together. On an exclusive store a node continues from saved guard state,
 * so the bound holds across boots, except for retries that were not saved yet.
 */
import {
  GUARD_DOCUMENT,
  SERVICE_BUDGET_DOCUMENT,
} from "../../../faces/service/src/engine/destination/guard-saver.ts";
import type { UnversionedDocument } from "../../../faces/service/src/model/document-table.ts";
import { documentOf } from "../documents.ts";
import { assertThat, type Checker, type Sent } from "../history.ts";

interface Ratio {
  readonly ratio: number;
  readonly minPerSecond: number;
  readonly windowMs: number;
}

interface Retry {
  readonly at: number;
  readonly attempt: string;
  readonly document: string | null;
}

/** The traffic to one destination, or to all. */
interface Traffic {
  readonly firsts: number[];
  retries: Retry[];
  firstsSucceeded: number;
  /** When its guard state was saved last. */
  savedAt: number;
}

export interface BudgetWorld {
  /** The service retry budget of the nodes. */
  readonly service: Pick<Ratio, "ratio" | "minPerSecond">;
  /** Guard state is saved and restored. */
  readonly isSingle: boolean;
}

const SERVICE_WINDOW_MS = 10_000;
const SERVICE = "(service)";

const attemptKeyOf = ({ task }: Sent) => `${task.taskId}/${task.attemptNumber}`;

export function retryBudget({ service, isSingle }: BudgetWorld): Checker {
  const name = "retry budget kept";
  const serviceRatio: Ratio = { ...service, windowMs: SERVICE_WINDOW_MS };
  const traffic = new Map<string, Traffic>();
  const succeeded = new Set<string>();
  let bootedAs = "";
  let boots = 0;

  const keyOf = (nodeId: string, rest: string) => (isSingle ? rest : `${nodeId}/${rest}`);

  function trafficOf(key: string): Traffic {
    let one = traffic.get(key);
    if (one === undefined) {
      one = { firsts: [], retries: [], firstsSucceeded: 0, savedAt: 0 };
      traffic.set(key, one);
    }
    return one;
  }

  /** A new process knows only the saved state. */
  function recordBoot(nodeId: string): void {
    if (!isSingle || nodeId === bootedAs) return;
    bootedAs = nodeId;
    boots++;
    for (const one of traffic.values()) {
      one.retries = one.retries.filter(({ at }) => at < one.savedAt);
    }
  }

  const outstanding = (retries: readonly Retry[]) =>
    retries.filter(({ attempt }) => !succeeded.has(attempt)).length;

  function checkRatio(key: string, at: number, retries: readonly Retry[], bound: Ratio): void {
    const since = at - bound.windowMs;
    const firsts = trafficOf(key).firsts.filter((first) => first > since).length;
    const counted = outstanding(retries.filter((retry) => retry.at > since));
    const most = bound.ratio * firsts + (bound.minPerSecond * bound.windowMs) / 1000;
    assertThat(name, counted <= most, () => `${key}: ${counted} retries, ${most} allowed`);
  }

  function checkOwn(key: string, event: Sent): void {
    const { retryBudget: own } = documentOf(event.document);
    const { retries, firstsSucceeded } = trafficOf(key);
    const under = retries.filter(({ document }) => document === event.document);
    if (own?.kind === "RATIO") checkRatio(key, event.at, under, own);
    if (own?.kind !== "TOKENS") return;
    // One retry a second, and one at each boot, is sent as a trial without a token.
    const lastedMs = event.at - (under[0]?.at ?? event.at);
    const free = 1 + boots + Math.floor(lastedMs / 1000);
    const spent = own.costPerRetry * Math.max(0, outstanding(under) - free);
    const most = own.maxTokens + own.refillPerSuccess * firstsSucceeded;
    assertThat(name, spent <= most, () => `${key}: ${spent} tokens spent, ${most} available`);
  }

  function recordSaved(documents: readonly UnversionedDocument[], now: number): void {
    for (const { kind, id } of documents) {
      if (kind === GUARD_DOCUMENT) trafficOf(id).savedAt = now;
      if (kind === SERVICE_BUDGET_DOCUMENT.kind) trafficOf(SERVICE).savedAt = now;
    }
  }

  return {
    name,
    committed({ batch }) {
      recordBoot(batch.nodeId);
      if (isSingle) recordSaved(batch.documents, batch.now);
    },
    sent(event) {
      const { at, nodeId, task, document } = event;
      recordBoot(nodeId);
      const keys = [keyOf(nodeId, task.destination), keyOf(nodeId, SERVICE)] as const;
      const isRetry = task.attemptNumber > 1;
      for (const key of keys) {
        const { firsts, retries } = trafficOf(key);
        if (isRetry) retries.push({ at, attempt: attemptKeyOf(event), document });
        else firsts.push(at);
      }
      if (!isRetry) return;
      checkOwn(keys[0], event);
      checkRatio(keys[1], at, trafficOf(keys[1]).retries, serviceRatio);
    },
    ended(event, _endedAt, isSuccess) {
      if (!isSuccess) return;
      const { nodeId, task } = event;
      if (task.attemptNumber > 1) succeeded.add(attemptKeyOf(event));
      else trafficOf(keyOf(nodeId, task.destination)).firstsSucceeded++;
    },
    stopped() {
      if (!isSingle) return;
      for (const [key, { retries, savedAt }] of traffic) {
        const last = retries.at(-1)?.at ?? 0;
        // Without a service retry budget there is nothing to save.
        if (key === SERVICE && savedAt === 0) continue;
        assertThat(name, last <= savedAt, () => `${key}: stopped without saving its retries`);
      }
    },
  };
}
