/**
 * Guard saver: selects which destinations save their guard state, so that a restarted process has
 * neither a full retry budget nor forgotten limits. The state is written in commits that happen
 * anyway, at most once a second per destination and a few destinations at a time. Only while many
 * wait is a commit made for it alone. A crash loses the last second or two of state, or more with
 * many destinations. Restored state ages normally. The state of a destination that was dropped as
 * idle is removed in the same way.
 *
 * Only an exclusive store is used. In a shared store, two nodes would both count the same saved
 * first attempts, and together they would retry too much.
 */
import {
  type RetryBudgetDocument,
  type RetryBudgetOptions,
  resolveDestination,
  SharedBudget,
} from "@redrive/core";
import { type Batch, EMPTY_BATCH } from "../model/batch.ts";
import { GUARD_DOCUMENT, type UnversionedDocument } from "../model/document-table.ts";
import type { Store } from "../model/store.ts";
import { type DestinationRuntime, decodeBudget, encodeBudget } from "./destination-runtime.ts";

/** The document of the service retry budget. It belongs to no tenant. */
export const SERVICE_BUDGET_DOCUMENT = {
  kind: "retry-budget",
  tenantId: "",
  id: "whole",
} as const;

const INTERVAL_MS = 1000;

/** At most 320 documents a second for any number of destinations: a hundredth of a core. */
const SLICE = 8;
const SLICE_INTERVAL_MS = 25;

/** The number of documents per commit when the engine stops: a few milliseconds. */
const MAX_DOCUMENTS = 64;

const NO_DOCUMENTS: readonly UnversionedDocument[] = [];
const NO_DESTINATIONS: readonly DestinationRuntime[] = [];

export class GuardSaver {
  readonly #isExclusive: boolean;
  readonly #serviceBudget: SharedBudget | undefined;
  readonly #isKnown: (tenantId: string, name: string) => boolean;
  /** The destinations whose `isSavePending` is set, in the order in which they changed. */
  #pending: DestinationRuntime[] = [];
  /** The destinations in the last result of `take`. */
  #taken: readonly DestinationRuntime[] = [];
  /** Dropped destinations whose state is to be removed. */
  readonly #dropped: DestinationRuntime[] = [];
  #nextSliceAt = 0;
  #isBudgetPending = false;
  /** The last result of `take` included the service budget. */
  #isBudgetTaken = false;
  #budgetSavedAt = 0;

  /**
   * `isExclusive`: no other process uses the store. Otherwise nothing is saved. `isKnown`: does this
   * node know the destination?
   */
  constructor(
    isExclusive: boolean,
    serviceBudget: SharedBudget | undefined,
    isKnown: (tenantId: string, name: string) => boolean,
  ) {
    this.#isExclusive = isExclusive;
    this.#serviceBudget = serviceBudget;
    this.#isKnown = isKnown;
  }

  /** The guards of the destination may have changed. */
  recordChange(destination: DestinationRuntime): void {
    if (!this.#isExclusive) return;
    this.#isBudgetPending = this.#serviceBudget !== undefined;
    if (destination.isSavePending) return;
    destination.isSavePending = true;
    this.#pending.push(destination);
  }

  /**
   * The destination was dropped, because a new one behaves the same. State that was restored, but
   * never used, stays.
   */
  recordDropped(destination: DestinationRuntime): void {
    if (this.#isExclusive && destination.isSavedObsolete) this.#dropped.push(destination);
  }

  isPending(): boolean {
    return this.#pending.length + this.#dropped.length > 0 || this.#isBudgetPending;
  }

  /**
   * When to make a commit for the documents alone: at the next slice while more than one slice
   * waits, so that an idle engine saves as fast as a busy one. The last slice waits for a commit
   * that happens anyway.
   */
  nextAt(): number {
    if (this.#dropped.length > SLICE) return this.#nextSliceAt;
    if (this.#pending.length <= SLICE) return Number.POSITIVE_INFINITY;
    const savedAt = Math.min(...this.#pending.slice(0, SLICE).map((one) => one.savedAt));
    return Math.max(this.#nextSliceAt, savedAt + INTERVAL_MS);
  }

  /** The documents for a commit that is made now. */
  take(now: number): readonly UnversionedDocument[] {
    this.#taken = NO_DESTINATIONS;
    this.#isBudgetTaken = false;
    if (now < this.#nextSliceAt || !this.isPending()) return NO_DOCUMENTS;
    this.#nextSliceAt = now + SLICE_INTERVAL_MS;
    const slice = this.#pending.splice(0, SLICE);
    const due = slice.filter(({ savedAt }) => now - savedAt >= INTERVAL_MS);
    const early = slice.filter(({ savedAt }) => now - savedAt < INTERVAL_MS);
    this.#pending.push(...early);
    this.#taken = due;
    this.#isBudgetTaken = this.#isBudgetPending && now - this.#budgetSavedAt >= INTERVAL_MS;
    const budget = this.#isBudgetTaken ? this.#budgetDocument(now) : [];
    const removals = this.#dropped.splice(0, SLICE).flatMap((one) => this.#removalOf(one));
    return [...removals, ...due.map((one) => guardDocument(one, now)), ...budget];
  }

  /**
   * A destination that was created again keeps its state: it may have been saved since. A removal
   * that is lost in a failed commit is no problem: the state goes with the destination's row.
   */
  #removalOf({ tenantId, name }: DestinationRuntime): readonly UnversionedDocument[] {
    if (this.#isKnown(tenantId, name)) return NO_DOCUMENTS;
    return [{ kind: GUARD_DOCUMENT, tenantId, id: name, text: null }];
  }

  /** The commit with the last result of `take` failed, so its documents are pending again. */
  recordFailure(): void {
    for (const destination of this.#taken) {
      destination.savedAt = 0;
      this.recordChange(destination);
    }
    this.#taken = NO_DESTINATIONS;
    if (!this.#isBudgetTaken) return;
    this.#isBudgetTaken = false;
    this.#isBudgetPending = true;
    this.#budgetSavedAt = 0;
  }

  /** Saves everything that is pending, before the process ends. */
  async saveAll(store: Store, { now, nodeId }: Pick<Batch, "now" | "nodeId">): Promise<void> {
    const pending = this.#pending;
    this.#pending = [];
    let budget = this.#budgetDocument(now);
    while (pending.length + budget.length > 0) {
      const slice = pending.splice(0, MAX_DOCUMENTS).map((one) => guardDocument(one, now));
      await store.commit({ now, nodeId, ...EMPTY_BATCH, documents: [...budget, ...slice] });
      budget = [];
    }
  }

  #budgetDocument(now: number): UnversionedDocument[] {
    if (this.#serviceBudget === undefined || !this.#isBudgetPending) return [];
    this.#isBudgetPending = false;
    this.#budgetSavedAt = now;
    return [{ ...SERVICE_BUDGET_DOCUMENT, text: encodeBudget(this.#serviceBudget.whole) }];
  }
}

function guardDocument(destination: DestinationRuntime, now: number): UnversionedDocument {
  destination.isSavePending = false;
  destination.hasSavedGuards = true;
  destination.savedAt = now;
  const { tenantId, name } = destination;
  return { kind: GUARD_DOCUMENT, tenantId, id: name, text: destination.savedGuards() };
}

// Service retry budget: one retry budget for all destinations of the service together. When many
// destinations fail at once, it prevents the service from sending mostly retries. Core's
// `SharedBudget` divides it among the tenants, and `RetryTokens` takes from this budget and the
// destination's own budget, both or neither.

/**
 * By default larger than a destination's budget: a fifth of the first attempts, and 100 per second.
 * It then limits retries when many destinations fail, and not when one does.
 */
const SERVICE_DEFAULTS = { ratio: 0.2, minPerSecond: 100 } as const;

/** Throws `INVALID_DESTINATION` for an invalid document. Undefined: off. */
export function serviceBudgetOptions(
  document: RetryBudgetDocument | false = {},
): RetryBudgetOptions | undefined {
  const isRatio = document !== false && (document.kind ?? "RATIO") === "RATIO";
  const retryBudget = isRatio ? { ...SERVICE_DEFAULTS, ...document } : document;
  return resolveDestination({ retryBudget } as object, "service").retryBudget;
}

/** `text`: the state that an earlier process saved. Default: none. */
export function createServiceBudget(
  options: RetryBudgetOptions | undefined,
  now: number,
  text?: string,
): SharedBudget | undefined {
  return options && new SharedBudget(decodeBudget(options, text, now));
}
