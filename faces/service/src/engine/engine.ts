/**
 * Engine: connects the parts of a node. It accepts tasks, has them attempted when they are due and
 * permitted, and settles them, with the clock, the randomness, the store and the delivery that it is
 * given.
 *
 * A task goes from `TaskOperations` through the commit queue and the commit loop to the runner and
 * the delivery. Its settle returns through the same queue.
 */
import type { Clock, Random, RetryBudgetDocument, SharedBudget } from "@redrive/core";
import { messageOf } from "@redrive/core";
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
import type { TaskQueue } from "./commit/commit-queues.ts";
import { SuspectTurn } from "./commit/suspect-turn.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import { Destinations, type ReadGuards } from "./destination/destinations.ts";
import { GuardSaver, SERVICE_BUDGET_DOCUMENT } from "./destination/guard-saver.ts";
import { type Hold, holdOf } from "./destination/lane-hold.ts";
import { createServiceBudget, serviceBudgetOptions } from "./destination/service-retry-budget.ts";
import { type DestinationChange, DestinationChanges } from "./destination-changes.ts";
import { createShard, createShardBase, type EngineShard, type ShardBase } from "./engine-shard.ts";
import { DocumentReports } from "./events/document-reports.ts";
import { EngineEvents } from "./events/engine-events.ts";
import { ClockWatch } from "./node/clock-watch.ts";
import type { Phase } from "./node/node-state.ts";
import type { StartTrace } from "./run/attempt-trace.ts";
import type { Deliver } from "./run/deliver-function.ts";
import type { FollowUp } from "./run/follow-up-tasks.ts";
import { Runner, type RunnerParts } from "./run/runner.ts";
import { type AttemptSlots, attemptLimits } from "./schedule/attempt-slots.ts";
import { SharedTurns } from "./schedule/shared-turns.ts";
import { routesOf } from "./shard-routes.ts";
import type { Slice } from "./slices.ts";
import { type CancelledTask, TaskOperations } from "./task-operations.ts";
import { TaskPlaces } from "./task-places.ts";

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
  /** In a shared store, a second commit runs beside one if this many items wait. Default: that of the store, or 128. */
  readonly overlapItems?: number | undefined;
  /** How long ended tasks are kept. Default: 3 days. */
  readonly retentionMs?: number;
  /** How long dead letters are kept. Default: 30 days. */
  readonly deadLetterRetentionMs?: number;
  /** The tasks that are created when other tasks end. Default: none. */
  readonly followUp?: FollowUp;
  /** Default: attempts are not traced. */
  readonly startTrace?: StartTrace | undefined;
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
  /** One for each shard of the store. A store that is not sharded is one shard. */
  readonly #shards: readonly EngineShard[];
  readonly #places: TaskPlaces;
  readonly #guardSaver: GuardSaver;
  readonly #queue: TaskQueue;
  readonly #runner: Runner;
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
    const { startTrace, retentionMs, deadLetterRetentionMs, overlapItems } = options;
    const { leaseMs, maxClockStepMs, maxClockAheadMs } = options;
    const limits = { maxClockStepMs, maxClockAheadMs, confirmMs: leaseMs, reference: storeClock };
    const time = new EngineTime(clock, latestAt, limits);
    const budgetOptions = serviceBudgetOptions(options.retryBudget);
    const serviceBudget = createServiceBudget(budgetOptions, time.now(), budgetText);
    const readGuards = store.exclusive ? savedGuardsOf(store) : undefined;
    const events = new EngineEvents(nodeId);
    const { shards } = store;
    const turns = new SharedTurns(attemptLimits(options));
    const budget = { serviceBudget, budgetOptions };
    const broken = (error: unknown) => this.#fail(error);
    const { claimAheadMs } = options;
    const own = { nodeId, leaseMs, claimAheadMs, broken };
    const ofNode = { clock, time, events, turns, ...own, ...budget };
    const bases = (shards?.stores ?? [store]).map((one, index) =>
      createShardBase(ofNode, one, index, shards?.partitions[index]),
    );
    const [first] = bases as [ShardBase, ...ShardBase[]];
    const fleetOf = (tenantId: string, name: string) =>
      (bases[shards?.homeOf(tenantId, name) ?? 0] ?? first).fleet;
    const destinations = new Destinations(time, random, { serviceBudget, readGuards, fleetOf });
    const isKnown = (tenantId: string, name: string) =>
      destinations.find(tenantId, name) !== undefined;
    const guardSaver = new GuardSaver(store.exclusive, serviceBudget, isKnown);
    const reports = new DocumentReports(time, events);
    const policies = new PolicyCache(store, ({ policyVersion, policyId, tenantId }, reading) =>
      reports.record({ kind: "policy", tenantId, name: policyId, version: policyVersion }, reading),
    );
    const { baseOf, queue, schedule } = routesOf(bases, shards);
    const base = { clock, time, random, events, reports, destinations, guardSaver, policies };
    const shared = { queue, schedule, scheduler: schedule, followUp, ...base };
    const nodeOf = (taskId: string) => baseOf(taskId).node;
    const disableTarget: RunnerParts["disableTarget"] = (destination, targetUrl) =>
      this.#disableTarget(destination, targetUrl);
    const runner = new Runner({ deliver, nodeOf, disableTarget, startTrace, ...shared });
    const kept = { clockWatch: new ClockWatch(time, events), retentionMs, deadLetterRetentionMs };
    const suspectTurn = new SuspectTurn();
    const coded = codedStore(store, (error) => first.health.recordFailure(error));
    const ofShards = { runner, suspectTurn, storeClock, shards, overlapItems, ...kept, ...shared };
    this.#shards = bases.map((one) => createShard(ofShards, one, () => this.#shards));
    this.#places = new TaskPlaces(shards, this.#shards);
    this.#options = options;
    this.#time = time;
    this.serviceBudget = serviceBudget;
    this.destinations = destinations;
    this.attemptSlots = turns.slots;
    this.#guardSaver = guardSaver;
    this.events = events;
    this.policies = policies;
    this.reports = reports;
    this.#queue = queue;
    this.#runner = runner;
    const { node } = first;
    this.#tasks = new TaskOperations({ runner, node, placeOf: baseOf, ...shared });
    this.#changes = new DestinationChanges({ node, store: coded, ...shared });
  }

  get #first(): EngineShard {
    return this.#shards[0] as EngineShard;
  }

  #setPhase(phase: Phase): void {
    for (const { node } of this.#shards) node.phase = phase;
  }

  /** Loads the state of the store, and starts. */
  async start(): Promise<void> {
    if (this.#first.node.phase !== "new")
      throw serviceError("SERVICE_STOPPED", "the engine was started before");
    try {
      await Promise.all(this.#shards.map(({ exchange }) => exchange.runOnce()));
      await Promise.all(this.#shards.map(({ storeSync }) => storeSync.start()));
      this.#setPhase("running");
      await Promise.all(this.#shards.map(({ rescuer }) => rescuer.runOnce()));
    } catch (error) {
      this.#end(error);
      throw error;
    }
    for (const { exchange, maintenance } of this.#shards) {
      exchange.start();
      maintenance.start();
    }
    this.#queue.request();
  }

  get nodeId(): string {
    return this.#first.node.nodeId;
  }

  /** False before the start, and once the engine stops or has failed. */
  isRunning(): boolean {
    return this.#first.node.isRunning();
  }

  /** The byte for the partition in the id of a new task; undefined: any (see `partition.ts`). */
  partitionByte(tenantId: string, idempotencyKey: string | null): number | undefined {
    return this.#places.byteFor(tenantId, idempotencyKey, this.#time.now());
  }

  /** Engine time. */
  now(): number {
    return this.#time.now();
  }

  /** Adds work of other parts that is done in slices, every few seconds while the engine runs. */
  addMaintenance(slice: Slice): void {
    this.#first.maintenance.add(slice);
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
  holdOf({ tenantId, taskId, destination, lane, nextAttemptAt }: RetryTask): Hold | undefined {
    const shard = this.#options.store.shards?.ofTask(taskId) ?? 0;
    const waiting = this.destinations.find(tenantId, destination)?.lanesOf(shard)[lane];
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
    this.#first.health.recordFailure(error);
  }

  /** Ends the engine at once. No result may be confirmed any more. */
  #fail(error: unknown): void {
    if (this.#first.node.isStopped()) return;
    this.#end(error);
    this.#whenDrained?.();
    this.events.emit(this.#time.now(), { type: "node.failed", reason: messageOf(error) });
    this.#options.onFatal?.(error);
  }

  #end(error: unknown): void {
    this.#setPhase("stopped");
    for (const { maintenance, exchange, commitLoop } of this.#shards) {
      maintenance.stop();
      exchange.stop();
      commitLoop.close(storeFailure(error));
    }
    this.#runner.abort(error);
  }

  /**
   * Claims nothing more, waits at most `graceMs` for running attempts, then aborts them, and gives up
   * the lease. It waits two more seconds for a store that fails or does not respond; attempts that
   * are not settled by then count as abandoned. Safe to call twice.
   */
  async stop(graceMs = 30_000): Promise<void> {
    if (!this.#first.node.isRunning()) return;
    this.#setPhase("stopping");
    for (const { exchange } of this.#shards) exchange.request();
    const { clock } = this.#options;
    const lastMs = clock.monotonicMs() + graceMs + LAST_COMMITS_MS;
    const abort = () => this.#runner.abort(new Error("the service is stopping"));
    const cancelGrace = clock.alarm(graceMs, abort);
    const cancelLast = clock.alarm(graceMs + LAST_COMMITS_MS, () => this.#whenDrained?.());
    await this.#drained();
    cancelGrace();
    cancelLast();
    for (const { maintenance, exchange } of this.#shards) {
      maintenance.stop();
      exchange.stop();
    }
    if (this.#first.node.isStopped()) return;
    const leftMs = Math.min(LAST_COMMITS_MS, Math.max(0, lastMs - clock.monotonicMs()));
    if (!(await settlesWithin(clock, leftMs, this.#leave()))) {
      this.#first.health.recordFailure(stopTimedOut());
    }
    if (this.#first.node.isStopped()) return;
    this.#setPhase("stopped");
    for (const { commitLoop } of this.#shards) commitLoop.close(stopped());
  }

  /** Saves the guard state and removes the lease. A lease that is not removed lapses. */
  async #leave(): Promise<void> {
    const { store, nodeId } = this.#options;
    const author = { now: this.#time.now(), nodeId };
    await this.#guardSaver
      .saveAll(store, author)
      .catch((error: unknown) => this.#first.health.recordFailure(error));
    await Promise.all(this.#shards.map((shard) => shard.leave()));
  }

  /** Resolves once no claim is held and no item waits for a commit. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenDrained = resolve;
      for (const { commitLoop } of this.#shards) commitLoop.onIdle = () => this.#checkDrained();
      this.#checkDrained();
    });
  }

  #checkDrained(): void {
    const isIdle = this.#shards.every(({ commitLoop }) => commitLoop.isIdle());
    if (this.#runner.heldCount() === 0 && isIdle) this.#whenDrained?.();
  }
}

function savedGuardsOf({ documents }: Store): ReadGuards {
  return async (tenantId, name) =>
    (await documents.get(GUARD_DOCUMENT, tenantId, name))?.text ?? null;
}
