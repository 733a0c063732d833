/**
 * Memory nodes: the nodes of the memory store: their leases, their shares of the limits, and the
 * wake-ups that they send each other.
 */

import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import {
  type WakeUp,
  type WakeUpListener,
  WakeUpListeners,
  type WakeUps,
} from "../../model/lane-due.ts";
import {
  type DestinationReport,
  type DestinationShare,
  LATE_REPORT,
  type NodeReport,
  type OtherNodes,
  type RateReservation,
  type RateUse,
  RETIRED_MS,
  RETIRED_ROUND,
  type Renewal,
  reserveRate,
  type SlotUse,
} from "../../model/node-report.ts";
import { keyOf, PairMap, type Tables } from "./rows.ts";

interface Node {
  readonly round: number;
  readonly leaseUntil: number;
  readonly takesAll: boolean;
  readonly isLeaving: boolean;
}

const RETIRED = { round: RETIRED_ROUND, takesAll: false, isLeaving: true } as const;

/** What a node has of a destination. */
interface Slot {
  readonly report: DestinationReport;
  readonly slots: number;
  readonly retrySlots: number;
}

/** The nodes as the one that renews its lease finds them. */
interface Fleet {
  readonly nodeId: string;
  /** The other nodes that have their leases. */
  readonly others: readonly string[];
  /** One of them uses the whole limits. */
  readonly isTaken: boolean;
  readonly now: number;
}

export class MemoryNodes {
  readonly #clock: () => number;
  readonly #isExclusive: boolean;
  readonly #tables: Pick<Tables, "destinations" | "lastRemoved">;
  readonly #nodes = new Map<string, Node>();
  /** By destination, then by node. */
  readonly #slots = new PairMap<Map<string, Slot>>();
  /** The next free token of each rate. */
  readonly #nextTokenAt = new Map<string, number>();
  readonly #listeners = new WakeUpListeners();

  constructor(
    clock: () => number,
    isExclusive: boolean,
    tables: Pick<Tables, "destinations" | "lastRemoved">,
  ) {
    this.#clock = clock;
    this.#isExclusive = isExclusive;
    this.#tables = tables;
  }

  hasLease(nodeId: string): boolean {
    return (this.#nodes.get(nodeId)?.leaseUntil ?? 0) > this.#clock();
  }

  liveNodes(): readonly string[] {
    return [...this.#nodes.keys()].filter((nodeId) => this.#isLive(nodeId));
  }

  /** In an exclusive store, every other node is dead. */
  #isLive(nodeId: string): boolean {
    return !this.#isExclusive && this.hasLease(nodeId);
  }

  retire(nodeId: string): void {
    this.#remove(nodeId);
    // The calls of an exclusive store run in order, so no report arrives late.
    if (!this.#isExclusive) this.#nodes.set(nodeId, { ...RETIRED, leaseUntil: this.#clock() });
    this.tell("nodes-changed");
  }

  #remove(nodeId: string): void {
    this.#nodes.delete(nodeId);
    for (const slots of this.#slots.values()) slots.delete(nodeId);
  }

  /** Removes nodes without a lease, unless they still hold claims. Returns how many. */
  removeUnused(hasClaims: (nodeId: string) => boolean): number {
    const now = this.#clock();
    const isOver = ({ round, leaseUntil }: Node) =>
      leaseUntil + (round === RETIRED_ROUND ? RETIRED_MS : 0) <= now;
    const ended = [...this.#nodes].filter(([, node]) => isOver(node)).map(([nodeId]) => nodeId);
    const unused = ended.filter((nodeId) => !hasClaims(nodeId));
    for (const nodeId of unused) this.#remove(nodeId);
    if (unused.length > 0) this.tell("nodes-changed");
    return unused.length;
  }

  onWakeUp(listener: WakeUpListener): WakeUps {
    return this.#listeners.add(listener);
  }

  tell(wakeUp: WakeUp): void {
    this.#listeners.tell(wakeUp);
  }

  renew(report: NodeReport): Renewal {
    const { nodeId, leaseMs, isLeaving } = report;
    const now = this.#clock();
    const before = this.#nodes.get(nodeId);
    if (before !== undefined && report.round < before.round) throw new Error(LATE_REPORT);
    const others = [...this.#nodes.keys()].filter((id) => id !== nodeId && this.#isLive(id));
    const isHeld = before !== undefined && before.leaseUntil > now;
    const mayTakeAll = others.length === 0 || (isHeld && before.takesAll);
    const takesAll = report.takesAll && mayTakeAll;
    this.#nodes.set(nodeId, {
      round: report.round,
      leaseUntil: now + leaseMs,
      takesAll,
      isLeaving,
    });
    const hasChanged = before?.isLeaving !== isLeaving || before.takesAll !== takesAll;
    if (hasChanged) this.tell("nodes-changed");
    const isTaken = others.some((id) => this.#nodes.get(id)?.takesAll);
    const fleet = { nodeId, others, isTaken, now };
    return {
      now,
      wasLapsed: !this.#isExclusive && (before?.leaseUntil ?? 0) <= now,
      takesAll,
      nodes: [...others, nodeId].filter((id) => !this.#nodes.get(id)?.isLeaving).sort(),
      destinations: report.destinations.map((one) => this.#share(one, fleet)),
    };
  }

  #share(
    report: DestinationReport,
    { nodeId, others: live, isTaken, now }: Fleet,
  ): DestinationShare {
    const { tenantId, name } = report;
    const slots = this.#slotsOf(tenantId, name);
    const others: Slot[] = [];
    for (const id of live) {
      const slot = slots.get(id);
      if (slot !== undefined) others.push(slot);
    }
    const granted = isTaken ? 0 : grant(report.slots, slotsTaken(others));
    const maxRetries = report.slots === null ? Number.POSITIVE_INFINITY : granted;
    const retries = isTaken ? 0 : grant(report.retrySlots, retrySlotsTaken(others));
    const retrySlots = Math.min(retries, maxRetries);
    if (isUnused(report)) slots.delete(nodeId);
    else slots.set(nodeId, { report, slots: granted, retrySlots });
    const key = keyOf(tenantId, name);
    return {
      row: this.#newRow(report),
      slots: granted,
      retrySlots,
      rate: isTaken ? null : this.#reserve(report.rate, key, "calls", now),
      retryRate: isTaken ? null : this.#reserve(report.retryRate, key, "retries", now),
      others: sumOf(others),
    };
  }

  /** Null: the node knows it. What the node knows of a row that is gone may be a pause. */
  #newRow({ tenantId, name, version }: DestinationReport): DestinationRow | null {
    const { destinations, lastRemoved } = this.#tables;
    const row = destinations.get(keyOf(tenantId, name));
    if (row !== undefined) return row.version === version ? null : row;
    const isOld = version > 0 && version < lastRemoved;
    return isOld ? blankDestination(tenantId, name, lastRemoved) : null;
  }

  #slotsOf(tenantId: string, name: string): Map<string, Slot> {
    const known = this.#slots.get(tenantId, name);
    if (known !== undefined) return known;
    const slots = new Map<string, Slot>();
    this.#slots.set(tenantId, name, slots);
    return slots;
  }

  #reserve(
    use: RateUse | null,
    destination: string,
    name: string,
    now: number,
  ): RateReservation | null {
    if (use === null) return null;
    const key = keyOf(destination, name);
    const { reservation, nextAt } = reserveRate(use, this.#nextTokenAt.get(key) ?? 0, now);
    this.#nextTokenAt.set(key, nextAt);
    return reservation;
  }
}

/** At most what the shares and the running attempts of the other nodes leave. */
function grant(use: SlotUse | null, taken: number): number {
  return use === null ? 0 : Math.max(0, Math.min(use.wanted, use.limit - taken));
}

function slotsTaken(others: readonly Slot[]): number {
  let sum = 0;
  for (const { slots, report } of others) sum += Math.max(slots, report.slots?.used ?? 0);
  return sum;
}

function retrySlotsTaken(others: readonly Slot[]): number {
  let sum = 0;
  for (const { retrySlots, report } of others)
    sum += Math.max(retrySlots, report.retrySlots?.used ?? 0);
  return sum;
}

/** The node gives up its share. */
function isUnused({ demand, slots, retrySlots }: DestinationReport): boolean {
  const isFree = (use: SlotUse | null) => use === null || use.wanted + use.used === 0;
  return demand === 0 && isFree(slots) && isFree(retrySlots);
}

function sumOf(others: readonly Slot[]): OtherNodes {
  const sum = { calls: 0, failures: 0, slowCalls: 0, demanding: 0, demand: 0 };
  for (const { report } of others) {
    sum.calls += report.calls;
    sum.failures += report.failures;
    sum.slowCalls += report.slowCalls;
    sum.demanding += report.demand > 0 ? 1 : 0;
    sum.demand += report.demand;
  }
  return sum;
}
