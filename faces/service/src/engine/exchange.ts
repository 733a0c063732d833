/**
 * Exchange: renews the node's lease, and exchanges with the other nodes of a fleet through the store:
 * which nodes live, and shares of limits. About once a second in a shared store, and at once if a task
 * waits for a share or the nodes have changed. It waits for nothing but the store, so that no other work
 * costs the node its lease. Wake-ups of other nodes arrive here as well.
 */
import type { Cancel, Clock } from "@redrive/core";
import type { LaneDue, WakeUp, WakeUps } from "../model/lane-due.ts";
import type { DestinationReport, NodeReport, Renewal } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime, StoreClock } from "../time/engine-time.ts";
import type { CommitQueue, StoreHealth } from "./commit.ts";
import type { DestinationRuntime, Destinations } from "./destination-runtime.ts";
import type { DueScan } from "./due-scan.ts";
import type { DocumentReports } from "./events.ts";
import { type Fleet, shareOf } from "./fleet.ts";
import type { NodeLease, NodeState, OwnPartitions } from "./node.ts";
import type { Scheduler } from "./scheduler.ts";

interface ExchangeParts {
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
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly dueScan: DueScan;
  readonly reports: DocumentReports;
  readonly health: StoreHealth;
}

/** Nodes of a fleet exchange this often, and at most every `MIN_GAP_MS` on request. */
const INTERVAL_MS = 1000;
const MIN_GAP_MS = 20;

/** A node that is the last one keeps its partitions for so long, although it cannot commit. */
const MIN_STAY_MS = 30_000;

type Reported = readonly (readonly [DestinationRuntime, DestinationReport])[];

/** The documents of the reported destinations when they were reported. */
type Documents = readonly (string | null)[];

export class Exchange {
  readonly #parts: ExchangeParts;
  #running: Promise<void> | undefined;
  #isRequested = false;
  #startedMs = Number.NEGATIVE_INFINITY;
  #round = 0;
  /** The last exchange failed. */
  isFailing = false;
  #cancel: Cancel | undefined;
  #wakeUps: WakeUps | undefined;
  #isStopped = false;
  /** This node gives its partitions up, because it cannot commit. */
  #isGivingUp = false;
  #staysUntilMs = Number.NEGATIVE_INFINITY;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    parts.fleet.onLack(() => this.request());
  }

  /** Repeats the exchange in a shared store. In an exclusive one, the maintenance renews the lease. */
  start(): void {
    const { store, partitions } = this.#parts;
    if (store.exclusive) return;
    this.#wakeUps = store.onWakeUp((wakeUp) => this.#onWakeUp(wakeUp));
    this.#wakeUps.follow(partitions.list);
    this.#arm(INTERVAL_MS);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#wakeUps?.stop();
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
      const isSharing = !this.#parts.store.exclusive && this.#wakeUps !== undefined;
      if (isSharing) this.#arm(this.#isRequested ? this.#gapMs() : INTERVAL_MS);
    });
    return this.#running;
  }

  async #exchange(): Promise<void> {
    const { clock, time, store, storeClock, lease, fleet, node, queue } = this.#parts;
    this.#startedMs = clock.monotonicMs();
    this.#isRequested = false;
    const reported = fleet.takeReports(time.now());
    const documents = reported.map(([{ row }]) => row.document);
    const requested = lease.request();
    try {
      const renewal = await store.renew(this.#reportOf(reported));
      this.isFailing = false;
      storeClock?.record(renewal.now, requested.monotonicMs);
      if (storeClock !== undefined) time.followReading();
      const wasCertain = lease.isCertain();
      lease.record(requested, renewal.wasLapsed);
      if (!wasCertain && node.isRunning()) queue.request();
      this.#apply(renewal, reported, documents);
    } catch (error) {
      this.isFailing = true;
      fleet.restoreReports(reported.map(([destination]) => destination));
      throw error;
    }
  }

  /**
   * A node that renews its lease but cannot commit would keep its partitions, and nobody would send their
   * tasks. It leaves them to the others, if there are any, and tries again later.
   */
  #givesUp(): boolean {
    const { clock, health, fleet } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (health.canCommit()) this.#isGivingUp = false;
    else if (!this.#isGivingUp) this.#isGivingUp = fleet.hasOthers && nowMs >= this.#staysUntilMs;
    else if (!fleet.hasOthers) {
      // All nodes have given up.
      this.#isGivingUp = false;
      this.#staysUntilMs = nowMs + MIN_STAY_MS;
    }
    return this.#isGivingUp;
  }

  #reportOf(reported: Reported): NodeReport {
    const { time, node, lease, fleet } = this.#parts;
    return {
      nodeId: node.nodeId,
      round: ++this.#round,
      now: time.now(),
      leaseMs: lease.leaseMs,
      isLeaving: node.phase === "stopping" || this.#givesUp(),
      takesAll: fleet.isAlone,
      destinations: reported.map(([, report]) => report),
    };
  }

  #apply(renewal: Renewal, reported: Reported, documents: Documents): void {
    const { store, fleet, partitions, destinations, time, dueScan } = this.#parts;
    if (store.exclusive) return;
    const now = time.now();
    fleet.followBudgets(now);
    if (renewal.wasLapsed) fleet.dropShares(destinations);
    this.#applyShares(renewal, reported, documents);
    const { isChanged, gained, hasLost } = fleet.follow(renewal, destinations, now);
    // This node has become one of several, or the only one: the store must know at once.
    if (isChanged && renewal.takesAll !== fleet.isAlone) this.request();
    if (hasLost) this.#forgetForeign();
    if (gained.length > 0 || hasLost) this.#wakeUps?.follow(partitions.list);
    if (gained.length > 0) dueScan.readGained(gained);
  }

  #onWakeUp(wakeUp: WakeUp): void {
    if (wakeUp === "unreadable") this.#parts.health.recordUnreadableMessage();
    else if (wakeUp === "nodes-changed") this.request();
    else if (wakeUp === "lost") this.#parts.dueScan.readAll();
    else this.#expect(wakeUp);
  }

  /** The scheduler ignores lanes of partitions that this node does not lease. */
  #expect(lanes: readonly LaneDue[]): void {
    const { partitions, destinations, scheduler, queue, node } = this.#parts;
    const own = lanes.filter(({ partition }) => partitions.has(partition));
    for (const { tenantId, destination, lane, partition, dueAt } of own) {
      const found = destinations.getOrCreate(tenantId, destination);
      scheduler.expectDueAt(found.lanes[lane], dueAt, partition);
    }
    if (own.length > 0 && node.isRunning()) queue.request();
  }

  #applyShares({ destinations: shares }: Renewal, reported: Reported, documents: Documents): void {
    const { time, scheduler, queue, reports } = this.#parts;
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
      scheduler.unblock(destination, now);
    }
    if (reported.length > 0) queue.request();
  }

  /** The node that leases a partition now has read what is due there, or does so soon. */
  #forgetForeign(): void {
    const { destinations, scheduler } = this.#parts;
    for (const destination of destinations.values()) {
      scheduler.forgetForeign(Object.values(destination.lanes));
    }
  }
}
