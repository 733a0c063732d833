/**
 * Fleet: what this node knows of the other nodes on the same store: which nodes live, which partitions
 * this one leases, and of which destinations it needs shares. A node that is alone uses whole limits.
 */
import type { BudgetPlace, RetryBudgetOptions, SharedBudget } from "@redrive/core";
import type { DestinationReport, Renewal } from "../model/node-report.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import type { Destinations } from "./destination/destinations.ts";
import { isUnused, reportOf } from "./destination/fleet-report.ts";
import { type FleetPlace, type FleetView, windowOf } from "./destination/fleet-state.ts";
import { assignPartitions } from "./node/assign-partitions.ts";
import type { OwnPartitions } from "./node/own-partitions.ts";

/** A retry budget with a longer window is divided as if its window were this long. */
const MAX_WINDOW_MS = 60_000;

/** A destination is reported about this often. */
const REPORT_MS = 1000;

/** The destinations of one exchange. The others follow in the next ones. */
const MAX_REPORTS = 500;

/** The destinations whose shares this fleet grants. */
export type HomeDestinations = Pick<Destinations, "values">;

export interface FleetParts {
  readonly nodeId: string;
  readonly partitions: OwnPartitions;
  readonly leaseMs: number;
  /** The retry budget of the whole service, and its options; undefined: off. */
  readonly serviceBudget: SharedBudget | undefined;
  readonly budgetOptions: RetryBudgetOptions | undefined;
}

/** What an exchange has changed. */
export interface FleetChange {
  readonly isChanged: boolean;
  /** The partitions that this node leases since then. */
  readonly gained: readonly number[];
  readonly hasLost: boolean;
}

const NO_CHANGE: FleetChange = { isChanged: false, gained: [], hasLost: false };

type NodePlace = Omit<BudgetPlace, "reserved">;

/** The latest result of `budgetPlace`, and what it was for. */
interface LastPlace {
  readonly windowMs: number;
  readonly now: number;
  readonly place: NodePlace | undefined;
}

const NO_PLACE: LastPlace = { windowMs: 0, now: Number.NaN, place: undefined };

export class Fleet implements FleetView<DestinationRuntime> {
  readonly #parts: FleetParts;
  #nodes: readonly string[];
  #takesAll: boolean;
  /** Destinations whose limits this node shares, in the order of their next report. */
  readonly #active = new Set<DestinationRuntime>();
  #onLack: () => void = () => {};
  /** The numbers of nodes, the latest last, and since when. */
  #history: readonly { readonly since: number; readonly nodes: number }[] = [];
  #lastPlace = NO_PLACE;
  /** When this node joined others; -Infinity: it was the first. */
  #joinedAt = Number.NEGATIVE_INFINITY;

  /** `takesAll`: whether the node may assume that it is alone before the first exchange. */
  constructor(parts: FleetParts, takesAll: boolean) {
    this.#parts = parts;
    this.#nodes = [parts.nodeId];
    this.#takesAll = takesAll;
  }

  get takesAll(): boolean {
    return this.#takesAll;
  }

  budgetPlace(windowMs: number, now: number): NodePlace | undefined {
    const { windowMs: knownMs, now: knownAt, place } = this.#lastPlace;
    // One exchange asks for every destination, and most have the same window.
    if (windowMs === knownMs && now === knownAt) return place;
    const found = this.#placeAt(windowMs, now);
    this.#lastPlace = { windowMs, now, place: found };
    return found;
  }

  get placeSettledAt(): number {
    const changedAt = this.#history.at(-1)?.since ?? Number.NEGATIVE_INFINITY;
    return changedAt + this.#parts.leaseMs + MAX_WINDOW_MS + 1;
  }

  /**
   * A node that cannot reach the store learns of a new node only when its own lease ends. Until then it
   * uses its old part of a retry budget, or all of it, and what it used counts for a window.
   */
  #isNew(windowMs: number, now: number): boolean {
    return now - this.#joinedAt < this.#parts.leaseMs + windowMs;
  }

  #placeAt(windowMs: number, now: number): NodePlace | undefined {
    const latest = this.#history.at(-1);
    if (latest === undefined) return undefined;
    const beforeMs = Math.min(windowMs, MAX_WINDOW_MS);
    const recent = this.#history.filter(({ since }, at) => {
      const until = this.#history[at + 1]?.since ?? now;
      return until >= now - beforeMs || since >= now - beforeMs;
    });
    return {
      nodes: latest.nodes,
      maxNodes: Math.max(...recent.map(({ nodes }) => nodes)),
      isNew: this.#isNew(beforeMs, now),
    };
  }

  /** Follows the node's part of the retry budgets, which changes with time. */
  followBudgets(now: number): void {
    if (this.#history.length === 0) return;
    const { serviceBudget, budgetOptions } = this.#parts;
    const place = budgetOptions && this.budgetPlace(windowOf(budgetOptions), now);
    if (place && serviceBudget) {
      const { nodes, maxNodes, isNew } = place;
      serviceBudget.setPlace(budgetOptions, { nodes, maxNodes, isNew, reserved: 0 });
    }
    for (const destination of this.#active) destination.followFleet(now);
  }

  #recordNodes(now: number): void {
    const nodes = Math.max(1, this.#nodes.length);
    const isFirst = this.#history.length === 0;
    if (isFirst && nodes > 1) this.#joinedAt = now;
    const kept = this.#history.filter(({ since }) => now - since < MAX_WINDOW_MS);
    const last = this.#history.at(-1);
    this.#history = [
      ...(last && !kept.includes(last) ? [last] : []),
      ...kept,
      { since: now, nodes },
    ];
    this.#lastPlace = NO_PLACE;
  }

  get isAlone(): boolean {
    return this.#nodes.length === 1;
  }

  /** The place of this node in the last list of live nodes. */
  get place(): FleetPlace {
    const rank = this.#nodes.indexOf(this.#parts.nodeId);
    return { nodes: this.nodeCount, rank: Math.max(0, rank) };
  }

  get nodeCount(): number {
    return Math.max(1, this.#nodes.length);
  }

  /** One node of the fleet removes old tasks and unused rows. */
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
      if (!isUnused(destination, report)) this.#active.add(destination);
    }
    return reports;
  }

  /** The lease had ended, so other nodes may have got the shares of this one. */
  dropShares(destinations: HomeDestinations): void {
    for (const destination of destinations.values()) {
      destination.dropShare();
      if (!this.#takesAll) this.#active.add(destination);
    }
  }

  /** An exchange failed, so its destinations are reported again. */
  restoreReports(destinations: readonly DestinationRuntime[]): void {
    for (const destination of destinations) this.#active.add(destination);
  }

  /**
   * Follows the list of live nodes. A node that is not alone any more has no share until its next
   * report, in which it also agrees to share.
   */
  follow(renewal: Renewal, destinations: HomeDestinations, now: number): FleetChange {
    const { nodeId, partitions } = this.#parts;
    const { nodes } = renewal;
    const takesAll = renewal.takesAll && nodes.length === 1;
    const isSameFleet = isSame(nodes, this.#nodes);
    if (isSameFleet && takesAll === this.#takesAll) return NO_CHANGE;
    const before = partitions.list;
    this.#nodes = nodes;
    this.#takesAll = takesAll;
    partitions.assign(assignPartitions(nodes, nodeId, partitions.all));
    if (!isSameFleet || this.#history.length === 0) this.#recordNodes(now);
    this.followBudgets(now);
    for (const destination of destinations.values()) {
      destination.followFleet(now);
      if (!takesAll) this.#active.add(destination);
    }
    if (takesAll) this.#active.clear();
    const gained = partitions.list.filter((partition) => !before.includes(partition));
    return {
      isChanged: true,
      gained,
      hasLost: before.some((partition) => !partitions.has(partition)),
    };
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, at) => one === b[at]);
}
