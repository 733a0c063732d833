/**
 * Fleet: what this node knows of the other nodes on the same store: which nodes live, which partitions
 * this one leases, and of which destinations it needs shares. A node that is alone uses whole limits.
 */
import {
  callCounts,
  canUseToken,
  type FleetShare,
  type ReservedTokens,
  type RetryBudgetOptions,
  reservedRetries,
  type SharedBudget,
  wantedSlots,
  wantedTokens,
} from "@redrive/core";
import {
  type DestinationReport,
  type DestinationShare,
  NO_OTHERS,
  type RateUse,
  type Renewal,
  type SlotUse,
} from "../model/node-report.ts";
import { hashOf } from "../model/partition.ts";
import type { DestinationRuntime, Destinations } from "./destination-runtime.ts";
import {
  BudgetPlaces,
  type FleetPlace,
  type FleetView,
  type NodePlace,
  reservedTokens,
  windowOf,
} from "./destination-runtime.ts";
import { earliestDueAt } from "./lanes.ts";
import type { OwnPartitions } from "./node.ts";

/** A destination is reported about this often. */
const REPORT_MS = 1000;

/** The destinations of one exchange. The others follow in the next ones. */
const MAX_REPORTS = 500;

interface FleetParts {
  readonly nodeId: string;
  readonly partitions: OwnPartitions;
  readonly leaseMs: number;
  /** The retry budget of the whole service, and its options; undefined: off. */
  readonly serviceBudget: SharedBudget | undefined;
  readonly budgetOptions: RetryBudgetOptions | undefined;
}

/** What an exchange has changed. */
interface FleetChange {
  readonly isChanged: boolean;
  /** The partitions that this node leases since then. */
  readonly gained: readonly number[];
  readonly hasLost: boolean;
}

const NO_CHANGE: FleetChange = { isChanged: false, gained: [], hasLost: false };

export class Fleet implements FleetView<DestinationRuntime> {
  readonly #parts: FleetParts;
  #nodes: readonly string[];
  #takesAll: boolean;
  /** Destinations whose limits this node shares, in the order of their next report. */
  readonly #active = new Set<DestinationRuntime>();
  #onLack: () => void = () => {};
  readonly #budgetPlaces: BudgetPlaces;

  /** `takesAll`: whether the node may assume that it is alone before the first exchange. */
  constructor(parts: FleetParts, takesAll: boolean) {
    this.#parts = parts;
    this.#nodes = [parts.nodeId];
    this.#takesAll = takesAll;
    this.#budgetPlaces = new BudgetPlaces(parts.leaseMs);
  }

  get takesAll(): boolean {
    return this.#takesAll;
  }

  budgetPlace(windowMs: number, now: number): NodePlace | undefined {
    return this.#budgetPlaces.placeAt(windowMs, now);
  }

  get placeSettledAt(): number {
    return this.#budgetPlaces.settledAt;
  }

  /** Follows the node's part of the retry budgets, which changes with time. */
  followBudgets(now: number): void {
    if (this.#budgetPlaces.isEmpty) return;
    const { serviceBudget, budgetOptions } = this.#parts;
    const place = budgetOptions && this.budgetPlace(windowOf(budgetOptions), now);
    if (place && serviceBudget) {
      const { nodes, maxNodes, isNew } = place;
      serviceBudget.setPlace(budgetOptions, { nodes, maxNodes, isNew, reserved: 0 });
    }
    for (const destination of this.#active) destination.followFleet(now);
  }

  get isAlone(): boolean {
    return this.#nodes.length === 1;
  }

  /** Other nodes live, and do not leave. */
  get hasOthers(): boolean {
    return this.#nodes.some((nodeId) => nodeId !== this.#parts.nodeId);
  }

  /** The place of this node in the last list of live nodes. */
  get place(): FleetPlace {
    const rank = this.#nodes.indexOf(this.#parts.nodeId);
    return { nodes: this.nodeCount, rank: Math.max(0, rank) };
  }

  /** The live nodes, this one included. */
  get nodes(): readonly string[] {
    return this.#nodes;
  }

  get nodeCount(): number {
    return Math.max(1, this.#nodes.length);
  }

  /** One node of the fleet removes unused rows, and does other work that needs one node. */
  isSweeper(): boolean {
    const { partitions } = this.#parts;
    return partitions.has(partitions.all[0] as number);
  }

  /** Called when a task waits for a share. */
  onLack(listener: () => void): void {
    this.#onLack = listener;
  }

  /** Asks for a larger share, unless the destination has just got all that the others leave. */
  recordUse(destination: DestinationRuntime): void {
    this.#active.add(destination);
    const { admission, usedAt, fleetState } = destination;
    if (!admission.lacksShare) return;
    const isLarger = admission.heldBy === "concurrency" && fleetState.hasAllWanted;
    if (isLarger || usedAt - fleetState.reportedAt >= REPORT_MS) this.#onLack();
  }

  /** The destinations to report now, at most `MAX_REPORTS`. */
  takeReports(now: number): readonly (readonly [DestinationRuntime, DestinationReport])[] {
    if (this.#takesAll) return [];
    const reports: (readonly [DestinationRuntime, DestinationReport])[] = [];
    for (const destination of this.#active) {
      if (reports.length >= MAX_REPORTS) break;
      this.#active.delete(destination);
      const report = reportOf(destination, now);
      destination.limitShare(report);
      reports.push([destination, report]);
    }
    for (const [destination, report] of reports) {
      if (!isUnused(destination, report, now)) this.#active.add(destination);
    }
    return reports;
  }

  /** The lease had ended, so other nodes may have got the shares of this one. */
  dropShares(destinations: Destinations): void {
    for (const destination of destinations.values()) {
      destination.dropShare();
      this.#reportLater(destination);
    }
  }

  /** Others may have changed the row of a destination since, or may end what holds it. */
  #reportLater(destination: DestinationRuntime): void {
    if (this.#takesAll) return;
    if (destination.isShared || destination.awaitsOthers) this.#active.add(destination);
  }

  /** An exchange failed, so its destinations are reported again. */
  restoreReports(destinations: readonly DestinationRuntime[]): void {
    for (const destination of destinations) this.#active.add(destination);
  }

  /**
   * Follows the list of live nodes. A node that is not alone any more has no share until its next
   * report, in which it also agrees to share.
   */
  follow(renewal: Renewal, destinations: Destinations, now: number): FleetChange {
    const { nodeId, partitions } = this.#parts;
    const { nodes } = renewal;
    const takesAll = renewal.takesAll && nodes.length === 1;
    const isSameFleet = isSame(nodes, this.#nodes);
    if (isSameFleet && takesAll === this.#takesAll) return NO_CHANGE;
    const before = partitions.list;
    this.#nodes = nodes;
    this.#takesAll = takesAll;
    partitions.assign(assignPartitions(nodes, nodeId, partitions.all));
    if (!isSameFleet || this.#budgetPlaces.isEmpty) this.#budgetPlaces.record(this.nodeCount, now);
    this.followBudgets(now);
    for (const destination of destinations.values()) {
      destination.followFleet(now);
      this.#reportLater(destination);
    }
    if (takesAll) this.#active.clear();
    return {
      isChanged: true,
      gained: partitions.list.filter((partition) => !before.includes(partition)),
      hasLost: before.some((partition) => !partitions.has(partition)),
    };
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, at) => one === b[at]);
}

// Fleet report: what a node reports of a destination that it shares with other nodes, and how it
// applies the share that it gets.

/** A destination that was not used for this long gives its share back. */
const KEPT_MS = 10_000;

function reportOf(destination: DestinationRuntime, now: number): DestinationReport {
  const { tenantId, name, row, admission, document } = destination;
  const { breaker } = admission.guards;
  // Of the default limits, only the retries of the budget's minimum are exchanged, if they are too few.
  // The node learns of changes of the row as well.
  const concurrency = destination.isShared ? document.concurrency : undefined;
  const demand = destination.isShared ? demandOf(destination, now) : 0;
  const counts = breaker === undefined ? NO_OTHERS : callCounts(breaker, now);
  const { slots, retrySlots } = destination.fleetState;
  const { share } = admission;
  return {
    tenantId,
    name,
    version: row.version,
    calls: counts.calls,
    failures: counts.failures,
    slowCalls: counts.slowCalls,
    demand,
    slots: concurrency
      ? useOf(concurrency.max, admission.inFlight, share?.slots, slots.since)
      : null,
    retrySlots: concurrency
      ? useOf(
          concurrency.maxRetries,
          admission.retriesInFlight,
          share?.retrySlots,
          retrySlots.since,
        )
      : null,
    rate: rateOf(destination, demand, now),
    retryRate: retryRateOf(destination, now),
  };

  /**
   * Until the response arrives, the node uses its share, as far as it still wants it. So that part
   * counts as used. Otherwise a smaller grant, because another node still asks under a larger limit,
   * would free slots that this node is about to take.
   */
  function useOf(limit: number, running: number, held: number | undefined, since: number): SlotUse {
    const { fleetState } = destination;
    const { demanding, demand: othersDemand } = fleetState.others;
    const idle = Math.max(0, fleetState.nodes - 1 - demanding);
    const need = { limit, demand, demanding, othersDemand, idle, heldMs: now - since };
    const wanted = fleetState.isRowKnown ? wantedSlots(need) : 0;
    return { limit, wanted, used: Math.max(running, Math.min(held ?? 0, wanted)) };
  }
}

/** Is nothing left to report, so that the share can be given back? */
function isUnused(
  { admission, isShared, awaitsOthers, lanes }: DestinationRuntime,
  { demand }: DestinationReport,
  now: number,
): boolean {
  if (isShared) return demand === 0 && admission.inFlight === 0;
  return !awaitsOthers || earliestDueAt(lanes) > now;
}

/**
 * While tasks wait, a node would use the whole limit. A node that has used the destination lately keeps
 * one slot more than it uses, so that its next task need not wait for a share.
 */
function demandOf(destination: DestinationRuntime, now: number): number {
  const { admission, document, usedAt } = destination;
  if (earliestDueAt(destination.lanes) <= now)
    return document.concurrency?.max ?? admission.inFlight + 1;
  return admission.inFlight + (now - usedAt < KEPT_MS ? 1 : 0);
}

function rateOf(destination: DestinationRuntime, demand: number, now: number): RateUse | null {
  const limit = destination.document.rate?.limit;
  if (limit === undefined) return null;
  const { perSecond, burst } = limit;
  const kept = destination.reserved.reduce((sum, tokens) => sum + comingOf(tokens, now), 0);
  const { demanding } = destination.fleetState.others;
  const used = mayUseToken(destination, now) ? demand : 0;
  const wanted = Math.max(0, wantedTokens(perSecond, used, demanding) - kept);
  return { perSecond, burst, wanted };
}

/** Has the node a slot for what is due, if there are too few for all nodes? */
function mayUseToken(
  { admission, document, fleetState, lanes }: DestinationRuntime,
  now: number,
): boolean {
  const { share } = admission;
  const { concurrency } = document;
  if (!concurrency || share === undefined) return true;
  const { demanding } = fleetState.others;
  if (!canUseToken(concurrency.max, share.slots, demanding)) return false;
  const isForRetries = lanes.first.dueAt > now;
  return !isForRetries || canUseToken(concurrency.maxRetries, share.retrySlots, demanding);
}

/** While a retry waits, the node reserves one at a time, because other nodes wait too. */
function retryRateOf(destination: DestinationRuntime, now: number): RateUse | null {
  const { retryBudget } = destination.document;
  const rate =
    retryBudget && reservedRetries(retryBudget, destination.fleetState.maxNodes(retryBudget, now));
  if (rate === undefined) return null;
  const isWaiting = earliestDueAt(destination.lanes, ["retry", "suspect"]) <= now;
  return { perSecond: rate.perSecond, burst: rate.burst, wanted: isWaiting ? 1 : 0 };
}

/** Tokens whose instant is still to come. */
function comingOf({ startAt, intervalMs, count, used }: ReservedTokens, now: number): number {
  const passed = Math.max(used, Math.ceil((now - startAt) / intervalMs));
  return Math.max(0, count - passed);
}

/** The share to use from now on. */
export function shareOf(
  destination: DestinationRuntime,
  { slots, retrySlots, rate }: DestinationShare,
  now: number,
): FleetShare {
  const { document } = destination;
  const perSecond = document.rate?.limit?.perSecond;
  const kept = destination.reserved.filter((tokens) => comingOf(tokens, now) > 0);
  if (rate !== null && perSecond !== undefined) {
    kept.push(reservedTokens(rate, 1000 / perSecond));
  }
  // Without a limit in the document, the guard only exists for the ramp after a gate.
  const isLimited = document.concurrency !== undefined;
  const all = Number.POSITIVE_INFINITY;
  return { slots: isLimited ? slots : all, retrySlots: isLimited ? retrySlots : all, rate: kept };
}

// Assign partitions: divides the partitions of a store among the live nodes of a fleet. Every node
// computes the same result from the same list of nodes, so they need no locks. When a node joins or
// leaves, few partitions move (rendezvous hashing), and no node has more than its part.

/** The partitions of `nodeId`; none if it is not one of the nodes. */
export function assignPartitions(
  nodes: readonly string[],
  nodeId: string,
  partitions: readonly number[],
): readonly number[] {
  if (!nodes.includes(nodeId)) return [];
  if (nodes.length === 1) return partitions;
  const sorted = [...nodes].sort();
  const room = new Map(sorted.map((node) => [node, Math.ceil(partitions.length / sorted.length)]));
  const own: number[] = [];
  for (const partition of partitions) {
    const owner = ownerOf(sorted, partition, room);
    room.set(owner, (room.get(owner) ?? 0) - 1);
    if (owner === nodeId) own.push(partition);
  }
  return own;
}

/** The node with the highest hash that still has room. */
function ownerOf(
  nodes: readonly string[],
  partition: number,
  room: ReadonlyMap<string, number>,
): string {
  let owner = nodes[0] as string;
  let highest = -1;
  for (const node of nodes) {
    const hash = mix(hashOf(`${partition}\n${node}`));
    if ((room.get(node) ?? 0) > 0 && hash > highest) {
      highest = hash;
      owner = node;
    }
  }
  return owner;
}

/** FNV alone changes its high bits too little for texts that differ in their end (MurmurHash3). */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
