/**
 * Exchange: renews the node's lease, and exchanges with the other nodes of a fleet through the store:
 * which nodes live, shares of limits, and hints about tasks. About once a second in a shared store, and
 * at once if a task waits for a share or another node has left a hint.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { LaneDue } from "../model/lane-due.ts";
import type { DestinationReport, DueHint, NodeReport, Renewal } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { StoreClock } from "../time/store-clock.ts";
import type { CommitQueue } from "./commit/commit-queue.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import type { Destinations } from "./destination/destinations.ts";
import { shareOf } from "./destination/fleet-report.ts";
import type { DocumentReports } from "./events/document-reports.ts";
import { onEngineTime, useEqualParts } from "./exchange-of-shard.ts";
import type { Fleet, HomeDestinations } from "./fleet.ts";
import type { NodeLease } from "./node/node-lease.ts";
import type { NodeState } from "./node/node-state.ts";
import type { OwnPartitions } from "./node/own-partitions.ts";
import type { StoreHealth } from "./node/store-health.ts";
import type { Schedule, Scheduler } from "./schedule/scheduler.ts";
import type { StoreSync } from "./store-sync.ts";

export interface ExchangeParts {
  /** The store is one of several shards. */
  readonly isShard: boolean;
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  /** Undefined in an exclusive store. */
  readonly storeClock: StoreClock | undefined;
  readonly node: NodeState;
  readonly lease: NodeLease;
  readonly fleet: Fleet;
  readonly partitions: OwnPartitions;
  readonly destinations: Destinations;
  /** Those whose shares the store of this exchange grants. */
  readonly homeDestinations: HomeDestinations;
  readonly scheduler: Scheduler;
  readonly schedule: Schedule;
  readonly queue: CommitQueue;
  readonly storeSync: StoreSync;
  readonly reports: DocumentReports;
  readonly health: StoreHealth;
}

/** Nodes of a fleet exchange this often, and at most every `MIN_GAP_MS` on request. */
const INTERVAL_MS = 1000;
const MIN_GAP_MS = 20;

type Reported = readonly (readonly [DestinationRuntime, DestinationReport])[];

/** The documents of the reported destinations when they were reported. */
type Documents = readonly (string | null)[];

export class Exchange {
  readonly #parts: ExchangeParts;
  #running: Promise<void> | undefined;
  #isRequested = false;
  #startedMs = Number.NEGATIVE_INFINITY;
  #handledHints: readonly string[] = [];
  #round = 0;
  /** The last exchange failed. */
  isFailing = false;
  #cancel: Cancel | undefined;
  #stopHints: (() => void) | undefined;
  #isStopped = false;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    parts.fleet.onLack(() => this.request());
  }

  /** Repeats the exchange in a shared store. In an exclusive one, the maintenance renews the lease. */
  start(): void {
    const { store } = this.#parts;
    if (store.exclusive) return;
    this.#stopHints = store.onHint((lanes) => this.#onHint(lanes));
    this.#arm(INTERVAL_MS);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#stopHints?.();
  }

  /** Resolves when no report is under way. After `retire`, the store would reject it. */
  async settled(): Promise<void> {
    await this.#running?.catch(() => {});
  }

  /** Requests an exchange soon. */
  request(): void {
    if (this.#isStopped || this.#isRequested || this.#parts.store.exclusive) return;
    this.#isRequested = true;
    if (this.#running === undefined) this.#arm(this.#gapMs());
  }

  #gapMs(): number {
    return Math.max(0, this.#startedMs + MIN_GAP_MS - this.#parts.clock.monotonicMs());
  }

  #arm(ms: number): void {
    this.#cancel?.();
    if (this.#isStopped) return;
    const run = () => void this.runOnce().catch((error) => this.#parts.health.recordFailure(error));
    this.#cancel = this.#parts.clock.alarm(ms, run, true);
  }

  /** One exchange. Rejects if the store fails; the next one is then made after the usual time. */
  runOnce(): Promise<void> {
    this.#running ??= this.#exchange().finally(() => {
      this.#running = undefined;
      const isSharing = !this.#parts.store.exclusive && this.#stopHints !== undefined;
      if (isSharing) this.#arm(this.#isRequested ? this.#gapMs() : INTERVAL_MS);
    });
    return this.#running;
  }

  async #exchange(): Promise<void> {
    const { clock, time, store, storeClock, lease, fleet, node, queue, scheduler } = this.#parts;
    this.#startedMs = clock.monotonicMs();
    this.#isRequested = false;
    const reported = fleet.takeReports(time.now());
    const documents = reported.map(([{ row }]) => row.document);
    const requested = lease.request();
    const recent = scheduler.recent.take();
    try {
      const response = await store.renew(this.#reportOf(reported));
      this.isFailing = false;
      const renewal = onEngineTime(this.#parts, response);
      storeClock?.record(renewal.now, requested.monotonicMs);
      if (storeClock !== undefined) time.followReading();
      const wasCertain = lease.isCertain();
      lease.record(requested, renewal.wasLapsed);
      if (!wasCertain && node.isRunning()) queue.request();
      await this.#apply(renewal, reported, documents, recent);
    } catch (error) {
      this.isFailing = true;
      // They are still recent.
      scheduler.recent.addAll(recent);
      fleet.restoreReports(reported.map(([destination]) => destination));
      useEqualParts(this.#parts, reported);
      throw error;
    }
  }

  #reportOf(reported: Reported): NodeReport {
    const { time, node, lease, fleet, partitions } = this.#parts;
    return {
      nodeId: node.nodeId,
      round: ++this.#round,
      now: time.now(),
      leaseMs: lease.leaseMs,
      isLeaving: node.phase === "stopping",
      takesAll: fleet.isAlone,
      partitions: partitions.list,
      handledHints: this.#handledHints,
      destinations: reported.map(([, report]) => report),
    };
  }

  async #apply(
    renewal: Renewal,
    reported: Reported,
    documents: Documents,
    recent: readonly LaneDue[],
  ): Promise<void> {
    const { store, fleet, homeDestinations, time, scheduler } = this.#parts;
    if (store.exclusive) return;
    const now = time.now();
    fleet.followBudgets(now);
    if (renewal.wasLapsed) fleet.dropShares(homeDestinations);
    this.#applyShares(renewal, reported, documents);
    const { isChanged, gained, hasLost } = fleet.follow(renewal, homeDestinations, now);
    this.#applyHints(renewal.hints);
    // This node has become one of several, or the only one: the store must know at once.
    if (isChanged && renewal.takesAll !== fleet.isAlone) this.request();
    if (hasLost) this.#forgetForeign([...recent, ...scheduler.recent.take()]);
    this.#parts.storeSync.addGained(gained);
    await this.#parts.storeSync.loadGained();
  }

  /** Hints of a partition that this node has just lost stay for the node that leases it now. */
  #applyHints(hints: readonly DueHint[]): void {
    const { partitions } = this.#parts;
    const own = hints.filter(({ partition }) => partitions.has(partition));
    this.#handledHints = own.map(({ hintId }) => hintId);
    if (own.length === 0) return;
    this.#expect(own);
    // There may be more than one exchange returns.
    this.request();
  }

  #onHint(lanes: readonly LaneDue[] | null): void {
    if (lanes === null) this.request();
    else this.#expect(lanes);
  }

  /** The scheduler ignores lanes of partitions that this node does not lease. */
  #expect(lanes: readonly LaneDue[]): void {
    const { partitions, destinations, scheduler, queue, node } = this.#parts;
    const own = lanes.filter(({ partition }) => partitions.has(partition));
    for (const { tenantId, destination, lane, partition, dueAt } of own) {
      const found = destinations.getOrCreate(tenantId, destination);
      scheduler.expectDueAt(scheduler.lanesOf(found)[lane], dueAt, partition);
    }
    if (own.length > 0 && node.isRunning()) queue.request();
  }

  #applyShares({ destinations: shares }: Renewal, reported: Reported, documents: Documents): void {
    const { time, schedule, queue, reports } = this.#parts;
    const now = time.now();
    for (const [index, [destination, report]] of reported.entries()) {
      const share = shares[index];
      if (share === undefined) continue;
      const { row } = share;
      if (row !== null) {
        destination.adopt(row, now);
        reports.record(destination.documentName, destination.reading);
      }
      // The share is of the limits that were reported. If the document has changed since, here or in
      // the store, the share is not valid: the node asks again.
      const isCurrent = destination.row.document === documents[index];
      if (isCurrent) destination.applyShare(share, report, shareOf(destination, share, now), now);
      else this.request();
      // The calls of all nodes may have opened the breaker.
      if (destination.changedRow() !== null) queue.addChanged(destination);
      schedule.unblock(destination, now);
    }
    if (reported.length > 0) queue.request();
  }

  /**
   * The node that leases a partition now has loaded its tasks, but maybe before this node has stored
   * the most recent ones. It gets hints about those.
   */
  #forgetForeign(recent: readonly LaneDue[]): void {
    const { destinations, scheduler, partitions, queue } = this.#parts;
    for (const destination of destinations.values()) {
      scheduler.forgetForeign(Object.values(scheduler.lanesOf(destination)));
    }
    for (const lane of recent) if (!partitions.has(lane.partition)) queue.addHint(lane);
  }
}
