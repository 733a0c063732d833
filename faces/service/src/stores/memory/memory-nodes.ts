/**
 * Memory nodes: the nodes of the memory store: their leases, their shares of the limits, and the hints
 * that they leave for each other.
 */
import type { DestinationRow } from "../../model/destination-row.ts";
import type { LaneDue } from "../../model/lane-due.ts";
import {
  type DestinationReport,
  type DestinationShare,
  type DueHint,
  MAX_HINTS,
  type NodeReport,
  type OtherNodes,
  type RateReservation,
  type RateUse,
  type Renewal,
  reserveRate,
  type SlotUse,
} from "../../model/node-report.ts";
import type { HintListener } from "../../model/store.ts";
import { keyOf } from "./rows.ts";

interface Node {
  readonly leaseUntil: number;
  readonly takesAll: boolean;
  readonly isLeaving: boolean;
}

/** What a node has of a destination. */
interface Slot {
  readonly report: DestinationReport;
  readonly slots: number;
  readonly retrySlots: number;
}

type SlotName = "slots" | "retrySlots";

export class MemoryNodes {
  readonly #clock: () => number;
  readonly #isExclusive: boolean;
  readonly #rowOf: (tenantId: string, name: string) => DestinationRow | undefined;
  readonly #nodes = new Map<string, Node>();
  /** By destination, then by node. */
  readonly #slots = new Map<string, Map<string, Slot>>();
  /** The next free token of each rate. */
  readonly #nextTokenAt = new Map<string, number>();
  readonly #hints = new Map<string, DueHint>();
  readonly #listeners = new Set<HintListener>();
  #lastHint = 0;

  constructor(
    clock: () => number,
    isExclusive: boolean,
    rowOf: (tenantId: string, name: string) => DestinationRow | undefined,
  ) {
    this.#clock = clock;
    this.#isExclusive = isExclusive;
    this.#rowOf = rowOf;
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
    this.#nodes.delete(nodeId);
    for (const slots of this.#slots.values()) slots.delete(nodeId);
    this.#tell(null);
  }

  /** Removes nodes without a lease, unless they still hold claims. Returns how many. */
  removeUnused(hasClaims: (nodeId: string) => boolean): number {
    const unused = [...this.#nodes.keys()].filter((id) => !this.hasLease(id) && !hasClaims(id));
    for (const nodeId of unused) this.retire(nodeId);
    return unused.length;
  }

  addHints(lanes: readonly LaneDue[]): void {
    if (lanes.length === 0) return;
    for (const lane of lanes) {
      const hintId = String(++this.#lastHint);
      this.#hints.set(hintId, { ...lane, hintId });
    }
    this.#tell(lanes);
  }

  onHint(listener: HintListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(lanes: readonly LaneDue[] | null): void {
    for (const listener of this.#listeners) listener(lanes);
  }

  renew(report: NodeReport): Renewal {
    const { nodeId, leaseMs, isLeaving, partitions, handledHints } = report;
    const now = this.#clock();
    const before = this.#nodes.get(nodeId);
    const others = [...this.#nodes.keys()].filter((id) => id !== nodeId && this.#isLive(id));
    const isHeld = before !== undefined && before.leaseUntil > now;
    const mayTakeAll = others.length === 0 || (isHeld && before.takesAll);
    const takesAll = report.takesAll && mayTakeAll;
    this.#nodes.set(nodeId, { leaseUntil: now + leaseMs, takesAll, isLeaving });
    const hasChanged = before?.isLeaving !== isLeaving || before.takesAll !== takesAll;
    if (hasChanged) this.#tell(null);
    for (const hintId of handledHints) this.#hints.delete(hintId);
    const hints = [...this.#hints.values()].filter((hint) => partitions.includes(hint.partition));
    return {
      now,
      wasLapsed: !this.#isExclusive && (before?.leaseUntil ?? 0) <= now,
      takesAll,
      nodes: [...others, nodeId].filter((id) => !this.#nodes.get(id)?.isLeaving).sort(),
      hints: hints.slice(0, MAX_HINTS),
      destinations: report.destinations.map((one) => this.#share(one, nodeId, others, now)),
    };
  }

  /** `live`: the other nodes that have their leases. */
  #share(
    report: DestinationReport,
    nodeId: string,
    live: readonly string[],
    now: number,
  ): DestinationShare {
    const key = keyOf(report.tenantId, report.name);
    const slots = this.#slots.get(key) ?? new Map<string, Slot>();
    this.#slots.set(key, slots);
    const others = live.flatMap((id) => slots.get(id) ?? []);
    const isTaken = live.some((id) => this.#nodes.get(id)?.takesAll);
    const granted = (name: SlotName) => (isTaken ? 0 : grant(report[name], others, name));
    const granting = granted("slots");
    const maxRetries = report.slots === null ? Number.POSITIVE_INFINITY : granting;
    const retrySlots = Math.min(granted("retrySlots"), maxRetries);
    const slot = { report, slots: granting, retrySlots };
    if (isUnused(report)) slots.delete(nodeId);
    else slots.set(nodeId, slot);
    const row = this.#rowOf(report.tenantId, report.name);
    return {
      row: row === undefined || row.version === report.version ? null : row,
      slots: slot.slots,
      retrySlots: slot.retrySlots,
      rate: isTaken ? null : this.#reserve(report.rate, keyOf(key, "calls"), now),
      retryRate: isTaken ? null : this.#reserve(report.retryRate, keyOf(key, "retries"), now),
      others: sumOf(others),
    };
  }

  #reserve(use: RateUse | null, key: string, now: number): RateReservation | null {
    if (use === null) return null;
    const { reservation, nextAt } = reserveRate(use, this.#nextTokenAt.get(key) ?? 0, now);
    this.#nextTokenAt.set(key, nextAt);
    return reservation;
  }
}

/** At most what the shares and the running attempts of the other nodes leave. */
function grant(use: SlotUse | null, others: readonly Slot[], name: SlotName): number {
  if (use === null) return 0;
  const taken = others.reduce(
    (sum, other) => sum + Math.max(other[name], other.report[name]?.used ?? 0),
    0,
  );
  return Math.max(0, Math.min(use.wanted, use.limit - taken));
}

/** The node gives up its share. */
function isUnused({ demand, slots, retrySlots }: DestinationReport): boolean {
  const isFree = (use: SlotUse | null) => use === null || use.wanted + use.used === 0;
  return demand === 0 && isFree(slots) && isFree(retrySlots);
}

function sumOf(others: readonly Slot[]): OtherNodes {
  const sum = (pick: (report: DestinationReport) => number) =>
    others.reduce((total, { report }) => total + pick(report), 0);
  return {
    calls: sum(({ calls }) => calls),
    failures: sum(({ failures }) => failures),
    slowCalls: sum(({ slowCalls }) => slowCalls),
    demanding: sum(({ demand }) => (demand > 0 ? 1 : 0)),
    demand: sum(({ demand }) => demand),
  };
}
