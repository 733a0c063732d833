/**
 * Retry budget: in every window that ends at a retry, a node's retries that have not succeeded are
 * at most a share of its first attempts, and a floor: those to one destination under one document, and
 * all together. On a store of its own a node goes on from what an earlier one wrote down, so the
 * bound holds across its boots, but for the retries that nobody had written down yet.
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
  readonly key: string;
  readonly document: string | null;
}

/** What goes to one destination, or to all. */
interface Traffic {
  readonly firsts: number[];
  retries: Retry[];
  firstsSucceeded: number;
  /** When it was last written down. */
  notedAt: number;
}

export interface BudgetWorld {
  /** What the nodes were given for all destinations. */
  readonly whole: Pick<Ratio, "ratio" | "minPerSecond">;
  /** Guards are written down and taken up again. */
  readonly isSingle: boolean;
}

const WHOLE_WINDOW_MS = 10_000;
const WHOLE = "(whole)";

const retryKeyOf = ({ task }: Sent) => `${task.taskId}/${task.attemptNumber}`;

export function retryBudget({ whole, isSingle }: BudgetWorld): Checker {
  const name = "retry budget kept";
  const wholeRatio: Ratio = { ...whole, windowMs: WHOLE_WINDOW_MS };
  const traffic = new Map<string, Traffic>();
  const succeeded = new Set<string>();
  let bootedAs = "";
  let boots = 0;

  const placeOf = (nodeId: string, rest: string) => (isSingle ? rest : `${nodeId}/${rest}`);

  function trafficOf(place: string): Traffic {
    let one = traffic.get(place);
    if (one === undefined) {
      one = { firsts: [], retries: [], firstsSucceeded: 0, notedAt: 0 };
      traffic.set(place, one);
    }
    return one;
  }

  /** A new process knows what was written down, and no more. */
  function noteBoot(nodeId: string): void {
    if (!isSingle || nodeId === bootedAs) return;
    bootedAs = nodeId;
    boots++;
    for (const one of traffic.values()) {
      one.retries = one.retries.filter(({ at }) => at < one.notedAt);
    }
  }

  const outstanding = (retries: readonly Retry[]) =>
    retries.filter(({ key }) => !succeeded.has(key)).length;

  function checkRatio(place: string, at: number, retries: readonly Retry[], bound: Ratio): void {
    const since = at - bound.windowMs;
    const firsts = trafficOf(place).firsts.filter((first) => first > since).length;
    const counted = outstanding(retries.filter((retry) => retry.at > since));
    const most = bound.ratio * firsts + (bound.minPerSecond * bound.windowMs) / 1000;
    assertThat(name, counted <= most, () => `${place}: ${counted} retries, ${most} allowed`);
  }

  function checkOwn(place: string, event: Sent): void {
    const { retryBudget: own } = documentOf(event.document);
    const { retries, firstsSucceeded } = trafficOf(place);
    const under = retries.filter(({ document }) => document === event.document);
    if (own?.kind === "RATIO") checkRatio(place, event.at, under, own);
    if (own?.kind !== "TOKENS") return;
    // One a second leaves without a token, and one at each boot, to find out.
    const lastedMs = event.at - (under[0]?.at ?? event.at);
    const free = 1 + boots + Math.floor(lastedMs / 1000);
    const spent = own.costPerRetry * Math.max(0, outstanding(under) - free);
    const most = own.maxTokens + own.refillPerSuccess * firstsSucceeded;
    assertThat(name, spent <= most, () => `${place}: ${spent} tokens spent, ${most} to be had`);
  }

  function noteNotes(notes: readonly UnversionedDocument[], now: number): void {
    for (const { kind, id } of notes) {
      if (kind === GUARD_DOCUMENT) trafficOf(id).notedAt = now;
      if (kind === SERVICE_BUDGET_DOCUMENT.kind) trafficOf(WHOLE).notedAt = now;
    }
  }

  return {
    name,
    committed({ batch }) {
      noteBoot(batch.nodeId);
      if (isSingle) noteNotes(batch.documents, batch.now);
    },
    sent(event) {
      const { at, nodeId, task, document } = event;
      noteBoot(nodeId);
      const places = [placeOf(nodeId, task.destination), placeOf(nodeId, WHOLE)] as const;
      const isRetry = task.attemptNumber > 1;
      for (const place of places) {
        const { firsts, retries } = trafficOf(place);
        if (isRetry) retries.push({ at, key: retryKeyOf(event), document });
        else firsts.push(at);
      }
      if (!isRetry) return;
      checkOwn(places[0], event);
      checkRatio(places[1], at, trafficOf(places[1]).retries, wholeRatio);
    },
    ended(event, _endedAt, isSuccess) {
      if (!isSuccess) return;
      const { nodeId, task } = event;
      if (task.attemptNumber > 1) succeeded.add(retryKeyOf(event));
      else trafficOf(placeOf(nodeId, task.destination)).firstsSucceeded++;
    },
    stopped() {
      if (!isSingle) return;
      for (const [place, { retries, notedAt }] of traffic) {
        const last = retries.at(-1)?.at ?? 0;
        // Who has no budget for all of them has nothing to write down of it.
        if (place === WHOLE && notedAt === 0) continue;
        assertThat(name, last <= notedAt, () => `${place}: stopped without a note of its retries`);
      }
    },
  };
}
