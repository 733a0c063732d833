/**
 * Fleet: what this node knows of the other nodes on the same store: which nodes live, which partitions
 * this one leases, and of which destinations it needs shares. A node that is alone uses whole limits.
 */
import type { RetryBudgetOptions, SharedBudget } from "@redrive/core";
import type { DestinationReport, Renewal } from "../model/node-report.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import type { Destinations } from "./destination/destinations.ts";
import { isUnused, reportOf } from "./destination/fleet-report.ts";
import { type FleetPlace, type FleetView, windowOf } from "./destination/fleet-state.ts";
import { assignPartitions } from "./node/assign-partitions.ts";
import { BudgetPlaces, type NodePlace } from "./node/budget-places.ts";
import type { OwnPartitions } from "./node/own-partitions.ts";

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
    if (!isSameFleet || this.#budgetPlaces.isEmpty) this.#budgetPlaces.record(this.nodeCount, now);
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
