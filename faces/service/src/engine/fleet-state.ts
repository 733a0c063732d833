/** Fleet state: what a destination of this node knows of the other nodes, from the last exchange. */
import {
  type BudgetPlace,
  type Destination,
  type FleetShare,
  type GuardOptions,
  type Guards,
  type ReservedTokens,
  type RetryBudgetOptions,
  shareBudget,
} from "@redrive/core";
import {
  type DestinationReport,
  type DestinationShare,
  NO_OTHERS,
  type OtherNodes,
  type RateReservation,
  reserveRate,
} from "../model/node-report.ts";

/** How many nodes are on the same store. */
interface FleetSize {
  /** The live nodes, at least 1. */
  readonly nodeCount: number;
  readonly place: FleetPlace;
  /** Its place among the nodes that share a retry budget; undefined: it has never shared one. */
  budgetPlace(windowMs: number, now: number): NodePlace | undefined;
  /** From when its place stays the same, unless the nodes change again; -Infinity: it has none. */
  readonly placeSettledAt: number;
}

/** The nodes on the same store, as a destination sees them. */
export interface FleetView<Destination> extends FleetSize {
  /** This node uses the whole limits, because it is alone. */
  readonly takesAll: boolean;
  /** A permit was requested. `admission.lacksShare` says whether a share was missing. */
  recordUse(destination: Destination): void;
}

/** A node among those that share a destination. */
export interface FleetPlace {
  readonly nodes: number;
  /** From 0. */
  readonly rank: number;
}

/** The view of a node that has no fleet. */
export const ALONE: FleetView<unknown> = {
  takesAll: true,
  nodeCount: 1,
  place: { nodes: 1, rank: 0 },
  budgetPlace: () => undefined,
  placeSettledAt: Number.NEGATIVE_INFINITY,
  recordUse: () => {},
};

interface SlotsHeld {
  readonly count: number;
  /** When it got the first of them. */
  readonly since: number;
}

const NO_SLOTS: SlotsHeld = { count: 0, since: Number.POSITIVE_INFINITY };

export class FleetState {
  /** What the other nodes reported last, and when this node reported. */
  others: OtherNodes = NO_OTHERS;
  reportedAt = 0;
  /**
   * The node knows the stored row. Before, it asks for no slots: it would ask for those of the default
   * limit, and the store would take the shares of the other nodes for too large.
   */
  isRowKnown = false;
  /** The node got as many slots as it wanted, so it may get more if it wants more. */
  hasAllWanted = false;
  /** Since when the node has a share of the slots. */
  slots: SlotsHeld = NO_SLOTS;
  retrySlots: SlotsHeld = NO_SLOTS;
  /** The instants of the reserved retries of the last window. */
  #reservedRetries: readonly number[] = [];
  readonly #fleet: FleetSize;
  /** When the retry budget was divided last. */
  #dividedAt = Number.NEGATIVE_INFINITY;
  /** The next token of the node's equal part of the rate. */
  #nextTokenAt = 0;

  constructor(fleet: FleetSize) {
    this.#fleet = fleet;
  }

  /** The live nodes of the fleet. */
  get nodes(): number {
    return this.#fleet.nodeCount;
  }

  /** The node's part of the retry budget may have grown since it was determined. */
  get isBudgetOutdated(): boolean {
    return this.#dividedAt < this.#fleet.placeSettledAt;
  }

  /** The retry budget is divided among the nodes. `options`: those of the whole budget. */
  shareBudget(
    { retryBudget }: Guards,
    { retryBudget: whole }: Pick<GuardOptions, "retryBudget">,
    now: number,
  ): void {
    this.#dividedAt = now;
    if (!retryBudget || !whole) return;
    const place = this.#fleet.budgetPlace(windowOf(whole), now);
    if (place === undefined) return;
    const { nodes, maxNodes, isNew } = place;
    const reserved = this.reservedRetries(windowOf(whole), now);
    // Field by field: with a spread, every place would get its own hidden class.
    shareBudget(retryBudget, whole, { nodes, maxNodes, isNew, reserved });
  }

  /** The largest number of nodes since one window of the retry budget ago. */
  maxNodes(budget: RetryBudgetOptions, now: number): number {
    return this.#fleet.budgetPlace(windowOf(budget), now)?.maxNodes ?? 1;
  }

  /** The node got this share in response to its report. `budget`: that of the document. */
  record(
    share: DestinationShare,
    { slots }: DestinationReport,
    budget: RetryBudgetOptions | undefined,
    now: number,
  ): void {
    this.isRowKnown = true;
    this.hasAllWanted = slots !== null && share.slots === slots.wanted;
    this.others = share.others;
    this.reportedAt = now;
    this.slots = heldSince(this.slots, share.slots, now);
    this.retrySlots = heldSince(this.retrySlots, share.retrySlots, now);
    if (budget?.kind === "RATIO") this.#recordRetries(share.retryRate, budget.windowMs, now);
  }

  /** The node's part of the default limits, at least one attempt. It needs no exchange. */
  partOfDefaults(document: Destination): FleetShare {
    const part = this.equalPart({ ...document, rate: undefined }, this.#fleet.place, [], 0);
    return { ...part, slots: Math.max(1, part.slots), retrySlots: Math.max(1, part.retrySlots) };
  }

  /**
   * The node's part of the limits if each node uses an equal one. The parts add up to the limits, as
   * long as the nodes know the same list of nodes. `kept`: reserved tokens that are not used yet.
   */
  equalPart(
    { concurrency, rate }: Destination,
    { nodes, rank }: FleetPlace,
    kept: readonly ReservedTokens[],
    now: number,
  ): FleetShare {
    const partOf = (limit: number) => Math.floor(limit / nodes) + (rank < limit % nodes ? 1 : 0);
    const slots = concurrency ? partOf(concurrency.max) : Number.POSITIVE_INFINITY;
    const retrySlots = concurrency ? partOf(concurrency.maxRetries) : Number.POSITIVE_INFINITY;
    if (rate?.limit === undefined) return { slots, retrySlots, rate: [] };
    const perSecond = rate.limit.perSecond / nodes;
    const use = { perSecond, burst: 1, wanted: Math.ceil(perSecond) };
    const { reservation, nextAt } = reserveRate(use, this.#nextTokenAt, now);
    this.#nextTokenAt = nextAt;
    const intervalMs = 1000 / perSecond;
    const added = reservation === null ? [] : [reservedTokens(reservation, intervalMs)];
    return { slots, retrySlots, rate: [...kept, ...added] };
  }

  /** A node reserves one retry at a time. */
  #recordRetries(reservation: RateReservation | null, windowMs: number, now: number): void {
    const recent = this.#reservedRetries.filter((at) => at > now - windowMs);
    this.#reservedRetries = reservation === null ? recent : [...recent, reservation.startAt];
  }

  /** How many retries were reserved for this node within the last window. */
  reservedRetries(windowMs: number, now: number): number {
    return this.#reservedRetries.filter((at) => at <= now && at > now - windowMs).length;
  }
}

/** Tokens at equal intervals, of which none is used yet. */
export function reservedTokens(
  { startAt, count }: RateReservation,
  intervalMs: number,
): ReservedTokens {
  return { startAt, count, intervalMs, used: 0 };
}

function heldSince(before: SlotsHeld, count: number, now: number): SlotsHeld {
  if (count === 0) return NO_SLOTS;
  return { count, since: before.count === 0 ? now : before.since };
}

/** The window in which a budget counts; 0: it has none. */
export function windowOf(budget: RetryBudgetOptions): number {
  return budget.kind === "RATIO" ? budget.windowMs : 0;
}

// Budget places: this node's place among the nodes that divide a retry budget. What a node used counts
// for a window, so a place depends on the nodes of the last window too.

/** A retry budget with a longer window is divided as if its window were this long. */
const MAX_WINDOW_MS = 60_000;

export type NodePlace = Omit<BudgetPlace, "reserved">;

/** The latest result of `placeAt`, and what it was for. */
interface LastPlace {
  readonly windowMs: number;
  readonly now: number;
  readonly place: NodePlace | undefined;
}

const NO_PLACE: LastPlace = { windowMs: 0, now: Number.NaN, place: undefined };

export class BudgetPlaces {
  readonly #leaseMs: number;
  /** The numbers of nodes, the latest last, and since when. */
  #history: readonly { readonly since: number; readonly nodes: number }[] = [];
  #lastPlace = NO_PLACE;
  /** When this node joined others; -Infinity: it was the first. */
  #joinedAt = Number.NEGATIVE_INFINITY;

  constructor(leaseMs: number) {
    this.#leaseMs = leaseMs;
  }

  /** No number of nodes is known. */
  get isEmpty(): boolean {
    return this.#history.length === 0;
  }

  /** From when the place stays the same, unless the nodes change again; -Infinity: it has none. */
  get settledAt(): number {
    const changedAt = this.#history.at(-1)?.since ?? Number.NEGATIVE_INFINITY;
    return changedAt + this.#leaseMs + MAX_WINDOW_MS + 1;
  }

  /** Undefined: this node has never shared a budget. */
  placeAt(windowMs: number, now: number): NodePlace | undefined {
    const { windowMs: knownMs, now: knownAt, place } = this.#lastPlace;
    // One exchange asks for every destination, and most have the same window.
    if (windowMs === knownMs && now === knownAt) return place;
    const found = this.#find(Math.min(windowMs, MAX_WINDOW_MS), now);
    this.#lastPlace = { windowMs, now, place: found };
    return found;
  }

  #find(windowMs: number, now: number): NodePlace | undefined {
    const latest = this.#history.at(-1);
    if (latest === undefined) return undefined;
    const recent = this.#history.filter(({ since }, at) => {
      const until = this.#history[at + 1]?.since ?? now;
      return until >= now - windowMs || since >= now - windowMs;
    });
    return {
      nodes: latest.nodes,
      maxNodes: Math.max(...recent.map(({ nodes }) => nodes)),
      isNew: this.#isNew(windowMs, now),
    };
  }

  /**
   * A node that cannot reach the store learns of a new node only when its own lease ends. Until then it
   * uses its old part of a retry budget, or all of it, and what it used counts for a window.
   */
  #isNew(windowMs: number, now: number): boolean {
    return now - this.#joinedAt < this.#leaseMs + windowMs;
  }

  /** The number of live nodes has changed, or is known for the first time. */
  record(nodes: number, now: number): void {
    if (this.isEmpty && nodes > 1) this.#joinedAt = now;
    const kept = this.#history.filter(({ since }) => now - since < MAX_WINDOW_MS);
    const last = this.#history.at(-1);
    this.#history = [
      ...(last && !kept.includes(last) ? [last] : []),
      ...kept,
      { since: now, nodes },
    ];
    this.#lastPlace = NO_PLACE;
  }
}
