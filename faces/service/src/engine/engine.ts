/**
 * Engine: connects the parts of a node. It accepts tasks, has them attempted when they are due and
 * permitted, and settles them, with the clock, the randomness, the store and the delivery that it is
 * given.
 *
 * A task goes from `TaskOperations` through the commit queue and the commit loop to the runner and
 * the delivery. Its settle returns through the same queue.
 */
import type { Clock, Random, RetryBudgetDocument, SharedBudget } from "@redrive/core";
import type {
  CancelRequest,
  CancelResult,
  CreateResult,
  RetryNowResult,
  TaskRef,
} from "../model/batch.ts";
import { isDisabled } from "../model/delivery/delivery-settings.ts";
import { disableIn } from "../model/delivery/disabled-targets.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { serviceError, stopped, stopTimedOut } from "../model/errors.ts";
import { PolicyCache } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import { codedStore, storeFailure } from "../model/store-wrappers/coded-store.ts";
import { timedStore } from "../model/store-wrappers/timed-store.ts";
import type { NewTask, RetryTask } from "../model/task.ts";
import { assertClock } from "../time/assert-clock.ts";
import { type ClockStatus, EngineTime } from "../time/engine-time.ts";
import { settlesWithin } from "../time/settles-within.ts";
import { StoreClock } from "../time/store-clock.ts";
import { CommitLoop } from "./commit/commit-loop.ts";
import { CommitQueue } from "./commit/commit-queue.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import { Destinations, type ReadGuards } from "./destination/destinations.ts";
import { GuardSaver, SERVICE_BUDGET_DOCUMENT } from "./destination/guard-saver.ts";
import { type Hold, holdOf } from "./destination/lane-hold.ts";
import { createServiceBudget, serviceBudgetOptions } from "./destination/service-retry-budget.ts";
import { type DestinationChange, DestinationChanges } from "./destination-changes.ts";
import { DocumentReports } from "./events/document-reports.ts";
import { EngineEvents } from "./events/engine-events.ts";
import { Exchange } from "./exchange.ts";
import { Fleet } from "./fleet.ts";
import { Maintenance } from "./maintenance.ts";
import { ClockWatch } from "./node/clock-watch.ts";
import { NodeLease } from "./node/node-lease.ts";
import { NodeState } from "./node/node-state.ts";
import { OwnPartitions } from "./node/own-partitions.ts";
import { messageOf, StoreHealth } from "./node/store-health.ts";
import type { Deliver } from "./run/deliver-function.ts";
import type { FollowUp } from "./run/follow-up-tasks.ts";
import { Rescuer } from "./run/rescuer.ts";
import { Runner, type RunnerParts } from "./run/runner.ts";
import { type AttemptSlots, attemptLimits } from "./schedule/attempt-slots.ts";
import { Scheduler } from "./schedule/scheduler.ts";
import type { Slice } from "./slices.ts";
import { StoreSync } from "./store-sync.ts";
import { type CancelledTask, TaskOperations } from "./task-operations.ts";

export interface EngineOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly store: Store;
  readonly deliver: Deliver;
  /** Must be new at each boot. */
  readonly nodeId: string;
  /** The retry budget of the whole service. Default: a fifth of first attempts, 100 per second. */
  readonly retryBudget?: RetryBudgetDocument | false;
  /** Attempts at once on this node, and to one origin. Default: 1024 and 256. */
  readonly attemptsAtOnce?: number | undefined;
  readonly attemptsPerOrigin?: number | undefined;
  /** The length of the node's lease. 1 second to 10 minutes. Default: 10 seconds. */
  readonly leaseMs?: number | undefined;
  /** A wall clock that is further ahead of engine time is refused. Default: 7 days. */
  readonly maxClockStepMs?: number | undefined;
  /** A wall clock that is further behind engine time is refused. Default: 1 hour. */
  readonly maxClockAheadMs?: number | undefined;
  /** How long before its due instant a task may be claimed. 0 to 1000 ms. Default: 8. */
  readonly claimAheadMs?: number | undefined;
  /** How long ended tasks are kept. Default: 3 days. */
  readonly retentionMs?: number;
  /** How long dead letters are kept. Default: 30 days. */
  readonly deadLetterRetentionMs?: number;
  /** The tasks that are created when other tasks end. Default: none. */
  readonly followUp?: FollowUp;
  /** The store can no longer be trusted, and the process must end. */
  readonly onFatal?: (error: unknown) => void;
}

/** What is read from the store before the engine is created. */
interface SavedState {
  readonly latestAt: number;
  /** Undefined in an exclusive store. */
  readonly storeClock: StoreClock | undefined;
  readonly budgetText: string | undefined;
}

/** How long a stopping engine waits for its last commits after the grace period. */
const LAST_COMMITS_MS = 2000;

export class Engine {
  readonly events: EngineEvents;
  readonly policies: PolicyCache;
  readonly reports: DocumentReports;
  readonly destinations: Destinations;
  /** The limits on running attempts. */
  readonly attemptSlots: AttemptSlots;
  /** The retry budget of the whole service; undefined: off. */
  readonly serviceBudget: SharedBudget | undefined;
  readonly #options: EngineOptions;
  readonly #time: EngineTime;
  readonly #node: NodeState;
  readonly #health: StoreHealth;
  readonly #exchange: Exchange;
  readonly #partitions: OwnPartitions;
  readonly #guardSaver: GuardSaver;
  readonly #queue: CommitQueue;
  readonly #runner: Runner;
  readonly #commitLoop: CommitLoop;
  readonly #rescuer: Rescuer;
  readonly #storeSync: StoreSync;
  readonly #maintenance: Maintenance;
  readonly #tasks: TaskOperations;
  readonly #changes: DestinationChanges;
  #whenDrained: (() => void) | undefined;

  /**
   * Opens an engine on a store. Engine time never starts before the latest stored instant. Throws
   * `CLOCK_BEHIND` if that is far ahead of the wall clock.
   */
  static async open(given: EngineOptions): Promise<Engine> {
    const { clock } = given;
    // A call to an exclusive store takes as long as the disk takes: nobody else could answer.
    const store = given.store.exclusive ? given.store : timedStore(clock, given.store);
    const options = { ...given, store };
    const { kind, tenantId, id } = SERVICE_BUDGET_DOCUMENT;
    const budget = store.exclusive ? await store.documents.get(kind, tenantId, id) : null;
    const storeClock = store.exclusive ? undefined : new StoreClock(clock, await store.clock());
    const latestAt = await store.latestAt();
    assertClock((storeClock ?? clock).now(), latestAt, options.maxClockAheadMs);
    return new Engine(options, { latestAt, storeClock, budgetText: budget?.text });
  }

  private constructor(options: EngineOptions, { latestAt, storeClock, budgetText }: SavedState) {
    const { clock, random, store, deliver, nodeId, followUp = () => undefined } = options;
    const { retentionMs, deadLetterRetentionMs } = options;
    const { leaseMs, maxClockStepMs, maxClockAheadMs } = options;
    const limits = { maxClockStepMs, maxClockAheadMs, confirmMs: leaseMs, reference: storeClock };
    const time = new EngineTime(clock, latestAt, limits);
    const partitions = new OwnPartitions(store.partitions);
    const scheduler = new Scheduler(attemptLimits(options), partitions, options.claimAheadMs);
    const budgetOptions = serviceBudgetOptions(options.retryBudget);
    const serviceBudget = createServiceBudget(budgetOptions, time.now(), budgetText);
    const readGuards = store.exclusive ? savedGuardsOf(store) : undefined;
    const fleet = new Fleet({ nodeId, partitions, serviceBudget, budgetOptions }, store.exclusive);
    const destinations = new Destinations(time, random, { serviceBudget, readGuards, fleet });
    const isKnown = (tenantId: string, name: string) =>
      destinations.find(tenantId, name) !== undefined;
    const guardSaver = new GuardSaver(store.exclusive, serviceBudget, isKnown);
    const events = new EngineEvents(nodeId);
    const health = new StoreHealth(clock, time, events, (error) => this.#fail(error));
    const lease = new NodeLease({ clock, time, isExclusive: store.exclusive, leaseMs });
    const node = new NodeState(nodeId, lease);
    const reports = new DocumentReports(time, events);
    const policies = new PolicyCache(store, ({ policyVersion, policyId, tenantId }, reading) =>
      reports.record({ kind: "policy", tenantId, name: policyId, version: policyVersion }, reading),
    );
    const queue = new CommitQueue();
    const base = { clock, time, random, store, node, health, events, reports, partitions };
    const parts = { ...base, destinations, guardSaver, scheduler, policies, queue, followUp };
    const disableTarget: RunnerParts["disableTarget"] = (destination, targetUrl) =>
      this.#disableTarget(destination, targetUrl);
    const runner = new Runner({ ...parts, deliver, disableTarget });
    const commitLoop = new CommitLoop({ ...parts, runner });
    const rescuer = new Rescuer({ ...parts, commitLoop, runner });
    const storeSync = new StoreSync(parts);
    const exchange = new Exchange({ ...parts, storeClock, lease, fleet, storeSync });
    const kept = { retentionMs, deadLetterRetentionMs };
    const clockWatch = new ClockWatch(time, events);
    const coded = codedStore(store, (error) => health.recordFailure(error));
    this.#options = options;
    this.#time = time;
    this.serviceBudget = serviceBudget;
    this.destinations = destinations;
    this.attemptSlots = scheduler.slots;
    this.#guardSaver = guardSaver;
    this.events = events;
    this.#health = health;
    this.#exchange = exchange;
    this.#partitions = partitions;
    this.#node = node;
    this.policies = policies;
    this.reports = reports;
    this.#queue = queue;
    this.#runner = runner;
    this.#commitLoop = commitLoop;
    this.#rescuer = rescuer;
    this.#storeSync = storeSync;
    const background = { ...parts, lease, exchange, fleet, clockWatch, runner, rescuer, storeSync };
    this.#maintenance = new Maintenance({ ...background, ...kept });
    this.#tasks = new TaskOperations({ ...parts, runner });
    this.#changes = new DestinationChanges({ ...parts, store: coded });
  }

  /** Loads the state of the store, and starts. */
  async start(): Promise<void> {
    if (this.#node.phase !== "new")
      throw serviceError("SERVICE_STOPPED", "the engine was started before");
    try {
      await this.#exchange.runOnce();
      await this.#storeSync.start();
      this.#node.phase = "running";
      await this.#rescuer.runOnce();
    } catch (error) {
      this.#end(error);
      throw error;
    }
    this.#exchange.start();
    this.#maintenance.start();
    this.#queue.request();
  }

  get nodeId(): string {
    return this.#node.nodeId;
  }

  /** False before the start, and once the engine stops or has failed. */
  isRunning(): boolean {
    return this.#node.isRunning();
  }

  /** The byte for the partition in the id of a new task; undefined: any (see `partition.ts`). */
  partitionByte(tenantId: string, idempotencyKey: string | null): number | undefined {
    return this.#partitions.byteFor(tenantId, idempotencyKey, this.#time.now());
  }

  /** Engine time. */
  now(): number {
    return this.#time.now();
  }

  /** Adds work of other parts that is done in slices, every few seconds while the engine runs. */
  addMaintenance(slice: Slice): void {
    this.#maintenance.add(slice);
  }

  /** Resolves at the end of this turn of the event loop, for work that is done in slices. */
  endOfTurn(): Promise<void> {
    return new Promise((resolve) => this.#options.clock.endOfTurn(resolve));
  }

  /** How engine time relates to the wall clock. */
  clock(): ClockStatus {
    return this.#time.status();
  }

  /** The number of claims whose attempt runs or starts soon. */
  underWay(): number {
    return this.#runner.underWay();
  }

  destination(tenantId: string, name: string): DestinationRuntime {
    return this.destinations.getOrCreate(tenantId, name);
  }

  /** The guard that holds the lane of a due task on this node; undefined: none does. */
  holdOf({ tenantId, destination, lane, nextAttemptAt }: RetryTask): Hold | undefined {
    const waiting = this.destinations.find(tenantId, destination)?.lanes[lane];
    const isHeld = waiting?.heldUntil === Number.POSITIVE_INFINITY;
    return isHeld && nextAttemptAt <= this.now() ? holdOf(waiting, nextAttemptAt) : undefined;
  }

  /** Calls `done` once the task is durable, or once the task of the same key is known. */
  create(
    task: NewTask,
    fingerprint: string | null,
    done: (result: CreateResult) => void,
    failed: (error: unknown) => void,
  ): void {
    this.#tasks.create(task, fingerprint, done, failed);
  }

  cancel(request: CancelRequest, task?: CancelledTask): Promise<CancelResult> {
    return this.#tasks.cancel(request, task);
  }

  /** Makes a waiting task due now. Guards still apply. */
  retryNow(request: TaskRef): Promise<RetryNowResult> {
    return this.#tasks.retryNow(request);
  }

  /** Changes the pause or the document of a destination. */
  changeDestination(
    tenantId: string,
    name: string,
    change: DestinationChange,
  ): Promise<DestinationRow> {
    return this.#changes.make(tenantId, name, change);
  }

  #disableTarget({ tenantId, name, delivery }: DestinationRuntime, targetUrl: string): void {
    if (isDisabled(delivery, targetUrl)) return;
    const now = this.#time.now();
    const change = ({ document }: DestinationRow) => ({
      document: disableIn(document, targetUrl, now),
    });
    // The store has reported its failure. The next 410 of the target disables it.
    this.#changes.make(tenantId, name, change).catch(() => {});
  }

  /** Reports a failure of the store that a caller outside the engine has seen. */
  recordStoreFailure(error: unknown): void {
    this.#health.recordFailure(error);
  }

  /** Ends the engine at once. No result may be confirmed any more. */
  #fail(error: unknown): void {
    if (this.#node.isStopped()) return;
    this.#end(error);
    this.#whenDrained?.();
    this.events.emit(this.#time.now(), { type: "node.failed", reason: messageOf(error) });
    this.#options.onFatal?.(error);
  }

  #end(error: unknown): void {
    this.#node.phase = "stopped";
    this.#maintenance.stop();
    this.#exchange.stop();
    this.#commitLoop.close(storeFailure(error));
    this.#runner.abort(error);
  }

  /**
   * Claims nothing more, waits at most `graceMs` for running attempts, then aborts them, and gives up
   * the lease. It waits two more seconds for a store that fails or does not respond; attempts that
   * are not settled by then count as abandoned. Safe to call twice.
   */
  async stop(graceMs = 30_000): Promise<void> {
    if (!this.#node.isRunning()) return;
    this.#node.phase = "stopping";
    this.#exchange.request();
    const { clock } = this.#options;
    const lastMs = clock.monotonicMs() + graceMs + LAST_COMMITS_MS;
    const abort = () => this.#runner.abort(new Error("the service is stopping"));
    const cancelGrace = clock.alarm(graceMs, abort);
    const cancelLast = clock.alarm(graceMs + LAST_COMMITS_MS, () => this.#whenDrained?.());
    await this.#drained();
    cancelGrace();
    cancelLast();
    this.#maintenance.stop();
    this.#exchange.stop();
    if (this.#node.isStopped()) return;
    const leftMs = Math.min(LAST_COMMITS_MS, Math.max(0, lastMs - clock.monotonicMs()));
    if (!(await settlesWithin(clock, leftMs, this.#leave()))) {
      this.#health.recordFailure(stopTimedOut());
    }
    if (this.#node.isStopped()) return;
    this.#node.phase = "stopped";
    this.#commitLoop.close(stopped());
  }

  /** Saves the guard state and removes the lease. A lease that is not removed lapses. */
  async #leave(): Promise<void> {
    const { store, nodeId } = this.#options;
    const author = { now: this.#time.now(), nodeId };
    await this.#guardSaver
      .saveAll(store, author)
      .catch((error: unknown) => this.#health.recordFailure(error));
    await store.retire(nodeId).catch(() => {});
  }

  /** Resolves once no claim is held and no item waits for a commit. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenDrained = resolve;
      this.#commitLoop.onIdle = () => this.#checkDrained();
      this.#checkDrained();
    });
  }

  #checkDrained(): void {
    if (this.#runner.heldCount() === 0 && this.#commitLoop.isIdle()) this.#whenDrained?.();
  }
}

function savedGuardsOf({ documents }: Store): ReadGuards {
  return async (tenantId, name) =>
    (await documents.get(GUARD_DOCUMENT, tenantId, name))?.text ?? null;
}
