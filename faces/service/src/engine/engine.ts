/**
 * Engine: connects the parts of a node. It accepts tasks, has them attempted when they are due and
 * permitted, and settles them, with the clock, the randomness, the store and the delivery that it is
 * given.
 *
 * A task goes from `TaskOperations` through the commit queue and the commit loop to the runner and
 * the delivery. Its settle returns through the same queue.
 */
import {
  type Clock,
  messageOf,
  type Random,
  type RetryBudgetDocument,
  type SharedBudget,
} from "@redrive/core";
import {
  type CancelRequest,
  type CancelResult,
  type CreateResult,
  EMPTY_BATCH,
  type RetryNowResult,
  type TaskRef,
} from "../model/batch.ts";
import { isDisabled } from "../model/delivery/delivery-settings.ts";
import { disableIn } from "../model/delivery/disabled-targets.ts";
import { type DestinationRow, isOpen } from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { serviceError, stopped, stopTimedOut } from "../model/errors.ts";
import { guardedStore, limitOf, storeFailure } from "../model/guarded-store.ts";
import { PolicyCache } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { NewTask, RetryTask } from "../model/task.ts";
import { settlesWithin } from "../time/deadline-timer.ts";
import { assertClock, type ClockStatus, EngineTime, StoreClock } from "../time/engine-time.ts";
import { CommitLoop, CommitQueue, StoreHealth } from "./commit.ts";
import { type DestinationRuntime, Destinations, type ReadGuards } from "./destination-runtime.ts";
import { DueScan } from "./due-scan.ts";
import { DocumentReports, EngineEvents, eventLabels, type WritableEventBody } from "./events.ts";
import { Exchange } from "./exchange.ts";
import { Fleet } from "./fleet.ts";
import {
  createServiceBudget,
  GuardSaver,
  SERVICE_BUDGET_DOCUMENT,
  serviceBudgetOptions,
} from "./guard-saver.ts";
import { type Hold, holdOf } from "./lanes.ts";
import { Maintenance, type Slice } from "./maintenance.ts";
import { ClockWatch, NodeLease, NodeState, OwnPartitions } from "./node.ts";
import { Rescuer } from "./rescuer.ts";
import type { StartTrace } from "./runner.ts";
import { type Deliver, Runner, type RunnerParts } from "./runner.ts";
import { Scheduler } from "./scheduler.ts";
import { type FollowUp, scheduleFollowUps } from "./settlement.ts";
import { type AttemptSlots, attemptLimits } from "./slots.ts";

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
  /** How long before its due instant a task may be claimed. 0 to 1000 ms; 0: nothing is claimed ahead. Default: 8. */
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

/**
 * How long running attempts may finish when a service stops: longer than an attempt of the default policy
 * (30 s). One that takes longer is aborted, and repeated by another node or after the restart.
 */
export const STOP_GRACE_MS = 35_000;

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
  readonly #node: NodeParts;
  readonly #path: TaskPath;
  readonly #duties: Duties;
  readonly #guardSaver: GuardSaver;
  readonly #tasks: TaskOperations;
  readonly #changes: DestinationChanges;
  #whenDrained: (() => void) | undefined;

  /**
   * Opens an engine on a store. Engine time never starts before the latest stored instant. Throws
   * `CLOCK_BEHIND` if that is far ahead of the wall clock.
   */
  static async open(given: EngineOptions): Promise<Engine> {
    const { clock } = given;
    const store = guardedStore(given.store, limitOf(clock, given.store));
    const options = { ...given, store };
    const { kind, tenantId, id } = SERVICE_BUDGET_DOCUMENT;
    const budget = store.exclusive ? await store.documents.get(kind, tenantId, id) : null;
    const storeClock = store.exclusive ? undefined : new StoreClock(clock, await store.clock());
    const latestAt = await store.latestAt();
    assertClock((storeClock ?? clock).now(), latestAt, options.maxClockAheadMs);
    return new Engine(options, { latestAt, storeClock, budgetText: budget?.text });
  }

  private constructor(options: EngineOptions, saved: SavedState) {
    this.#options = options;
    const { store } = options;
    const fail = (error: unknown) => this.#fail(error);
    const nodeParts = createNodeParts(options, saved, fail);
    const { time, events, reports, health, node } = nodeParts;
    const known = createKnowledge(options, nodeParts);
    const { destinations, policies, guardSaver } = known;
    const path = createTaskPath(options, nodeParts, known, (destination, targetUrl) =>
      this.#disableTarget(destination, targetUrl),
    );
    const { queue, scheduler, runner } = path;
    const coded = guardedStore(store, { failed: (error) => health.recordFailure(error) });
    this.#node = nodeParts;
    this.#path = path;
    this.#duties = createDuties(options, nodeParts, known, path, saved.storeClock);
    this.#guardSaver = guardSaver;
    this.#tasks = new TaskOperations({
      time,
      node,
      destinations,
      scheduler,
      queue,
      runner,
      events,
    });
    this.#changes = new DestinationChanges({
      store: coded,
      time,
      node,
      scheduler,
      queue,
      events,
      reports,
      destinations,
    });
    this.events = events;
    this.policies = policies;
    this.reports = reports;
    this.destinations = destinations;
    this.attemptSlots = scheduler.slots;
    this.serviceBudget = nodeParts.serviceBudget;
  }

  /** Loads the state of the store, and starts. */
  async start(): Promise<void> {
    if (this.#node.node.phase !== "new")
      throw serviceError("SERVICE_STOPPED", "the engine was started before");
    try {
      await this.#duties.exchange.runOnce();
      await this.#path.dueScan.start();
      this.#node.node.phase = "running";
      await this.#duties.rescuer.runOnce();
    } catch (error) {
      this.#end(error);
      throw error;
    }
    this.#duties.exchange.start();
    this.#duties.maintenance.start();
    this.#path.queue.request();
  }

  get nodeId(): string {
    return this.#node.node.nodeId;
  }

  /** False before the start, and once the engine stops or has failed. */
  isRunning(): boolean {
    return this.#node.node.isRunning();
  }

  /** False: its last commits have failed for some seconds. */
  canCommit(): boolean {
    return this.#node.health.canCommit();
  }

  /** The byte for the partition in the id of a new task; undefined: any (see `partition.ts`). */
  partitionByte(tenantId: string, idempotencyKey: string | null): number | undefined {
    return this.#node.partitions.byteFor(tenantId, idempotencyKey, this.#node.time.now());
  }

  /** Engine time. */
  now(): number {
    return this.#node.time.now();
  }

  /** Adds work of other parts that is done in slices, every few seconds while the engine runs. */
  addMaintenance(slice: Slice): void {
    this.#duties.maintenance.add(slice);
  }

  /** Resolves at the end of this turn of the event loop, for work that is done in slices. */
  endOfTurn(): Promise<void> {
    return new Promise((resolve) => this.#options.clock.endOfTurn(resolve));
  }

  /** The live nodes of the fleet, this one included. */
  nodes(): readonly string[] {
    return this.#node.fleet.nodes;
  }

  /** How engine time relates to the wall clock. */
  clock(): ClockStatus {
    return this.#node.time.status();
  }

  /** The number of claims whose attempt runs or starts soon. */
  underWay(): number {
    return this.#path.runner.underWay();
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
    reason = "it was changed",
  ): Promise<DestinationRow> {
    return this.#changes.make(tenantId, name, change, reason);
  }

  #disableTarget({ tenantId, name, delivery }: DestinationRuntime, targetUrl: string): void {
    if (isDisabled(delivery, targetUrl)) return;
    const now = this.#node.time.now();
    const change = ({ document }: DestinationRow) => ({
      document: disableIn(document, targetUrl, now),
    });
    // The store has reported its failure. The next 410 of the target disables it.
    const reason = "a target responded 410 Gone and is disabled";
    this.#changes.make(tenantId, name, change, reason).catch(() => {});
  }

  /** Reports a failure of the store that a caller outside the engine has seen. */
  recordStoreFailure(error: unknown): void {
    this.#node.health.recordFailure(error);
  }

  /** Ends the engine at once. No result may be confirmed any more. */
  #fail(error: unknown): void {
    if (this.#node.node.isStopped()) return;
    this.#end(error);
    this.#whenDrained?.();
    this.events.emit(this.#node.time.now(), { type: "node.failed", reason: messageOf(error) });
    this.#options.onFatal?.(error);
  }

  #end(error: unknown): void {
    this.#node.node.phase = "stopped";
    this.#duties.maintenance.stop();
    this.#path.dueScan.stop();
    this.#duties.exchange.stop();
    this.#path.commitLoop.close(storeFailure(error));
    this.#path.runner.abort(error);
  }

  /**
   * Claims nothing more, waits at most `graceMs` for running attempts, then aborts them, and gives up
   * the lease. It waits two more seconds for a store that fails or does not respond; attempts that
   * are not settled by then count as abandoned. Safe to call twice.
   */
  async stop(graceMs = STOP_GRACE_MS): Promise<void> {
    if (!this.#node.node.isRunning()) return;
    this.#node.node.phase = "stopping";
    this.#duties.exchange.request();
    const { clock } = this.#options;
    const lastMs = clock.monotonicMs() + graceMs + LAST_COMMITS_MS;
    const abort = () => this.#path.runner.abort(new Error("the service is stopping"));
    const cancelGrace = clock.alarm(graceMs, abort);
    const cancelLast = clock.alarm(graceMs + LAST_COMMITS_MS, () => this.#whenDrained?.());
    await this.#drained();
    cancelGrace();
    cancelLast();
    this.#duties.maintenance.stop();
    this.#path.dueScan.stop();
    this.#duties.exchange.stop();
    if (this.#node.node.isStopped()) return;
    const leftMs = Math.min(LAST_COMMITS_MS, Math.max(0, lastMs - clock.monotonicMs()));
    if (!(await settlesWithin(clock, leftMs, this.#leave()))) {
      this.#node.health.recordFailure(stopTimedOut());
    }
    if (this.#node.node.isStopped()) return;
    this.#node.node.phase = "stopped";
    this.#path.commitLoop.close(stopped());
  }

  /** Saves the guard state and removes the lease. A lease that is not removed lapses. */
  async #leave(): Promise<void> {
    const { store, nodeId } = this.#options;
    const author = { now: this.#node.time.now(), nodeId };
    await this.#guardSaver
      .saveAll(store, author)
      .catch((error: unknown) => this.#node.health.recordFailure(error));
    await this.#duties.exchange.settled();
    await store.retire(nodeId).catch(() => {});
  }

  /** Resolves once no claim is held and no item waits for a commit. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenDrained = resolve;
      this.#path.commitLoop.onIdle = () => this.#checkDrained();
      this.#checkDrained();
    });
  }

  #checkDrained(): void {
    if (this.#path.runner.isDone() && this.#path.commitLoop.isIdle()) this.#whenDrained?.();
  }
}

/** The node, and its place among the other nodes of the store. */
interface NodeParts {
  readonly time: EngineTime;
  readonly events: EngineEvents;
  readonly reports: DocumentReports;
  readonly health: StoreHealth;
  readonly lease: NodeLease;
  readonly node: NodeState;
  readonly partitions: OwnPartitions;
  /** The retry budget of the whole service; undefined: off. */
  readonly serviceBudget: SharedBudget | undefined;
  readonly fleet: Fleet;
}

function createNodeParts(
  options: EngineOptions,
  { latestAt, storeClock, budgetText }: SavedState,
  fail: (error: unknown) => void,
): NodeParts {
  const { clock, store, nodeId, leaseMs, maxClockStepMs, maxClockAheadMs } = options;
  const clockLimits = { maxClockStepMs, maxClockAheadMs, confirmMs: leaseMs };
  const time = new EngineTime(clock, latestAt, { ...clockLimits, reference: storeClock });
  const events = new EngineEvents(nodeId);
  const reports = new DocumentReports(time, events);
  const health = new StoreHealth(clock, time, events, fail);
  const lease = new NodeLease({ clock, time, isExclusive: store.exclusive, leaseMs });
  const node = new NodeState(nodeId, lease);
  const partitions = new OwnPartitions(store.partitions);
  const budgetOptions = serviceBudgetOptions(options.retryBudget);
  const serviceBudget = createServiceBudget(budgetOptions, time.now(), budgetText);
  const place = { nodeId, partitions, leaseMs: lease.leaseMs, serviceBudget, budgetOptions };
  const fleet = new Fleet(place, store.exclusive);
  return { time, events, reports, health, lease, node, partitions, serviceBudget, fleet };
}

/** What the node knows of destinations and policies, and what it saves of their guards. */
interface Knowledge {
  readonly destinations: Destinations;
  readonly policies: PolicyCache;
  readonly guardSaver: GuardSaver;
}

function createKnowledge(
  { store, random }: EngineOptions,
  { time, reports, serviceBudget, fleet }: NodeParts,
): Knowledge {
  const readGuards = store.exclusive ? savedGuardsOf(store) : undefined;
  const destinations = new Destinations(time, random, { serviceBudget, readGuards, fleet });
  const isKnown = (tenantId: string, name: string) =>
    destinations.find(tenantId, name) !== undefined;
  const guardSaver = new GuardSaver(store.exclusive, serviceBudget, isKnown);
  const policies = new PolicyCache(store, ({ policyVersion, policyId, tenantId }, reading) =>
    reports.record({ kind: "policy", tenantId, name: policyId, version: policyVersion }, reading),
  );
  return { destinations, policies, guardSaver };
}

/** What a task passes: it is found when it is due, claimed, attempted and settled. */
interface TaskPath {
  readonly dueScan: DueScan;
  readonly queue: CommitQueue;
  readonly scheduler: Scheduler;
  readonly runner: Runner;
  readonly commitLoop: CommitLoop;
}

function createTaskPath(
  options: EngineOptions,
  { time, events, reports, health, node, partitions }: NodeParts,
  { destinations, policies, guardSaver }: Knowledge,
  disableTarget: RunnerParts["disableTarget"],
): TaskPath {
  const { clock, random, store, deliver, startTrace, claimAheadMs, overlapItems } = options;
  const queue = new CommitQueue();
  const scheduler = new Scheduler(attemptLimits(options), partitions, claimAheadMs);
  const runner = new Runner({
    clock,
    time,
    random,
    node,
    queue,
    scheduler,
    events,
    destinations,
    policies,
    deliver,
    followUp: options.followUp ?? NO_FOLLOW_UP,
    startTrace,
    disableTarget,
  });
  const commitLoop = new CommitLoop({
    clock,
    time,
    store,
    node,
    health,
    queue,
    scheduler,
    partitions,
    guardSaver,
    reports,
    events,
    runner,
    overlapItems,
  });
  const dueScan = new DueScan({
    clock,
    store,
    time,
    node,
    health,
    partitions,
    destinations,
    scheduler,
    queue,
  });
  return { dueScan, queue, scheduler, runner, commitLoop };
}

const NO_FOLLOW_UP: FollowUp = () => undefined;

/** What runs beside the tasks: the exchange with the store, and work every few seconds. */
interface Duties {
  readonly exchange: Exchange;
  readonly rescuer: Rescuer;
  readonly maintenance: Maintenance;
}

function createDuties(
  { clock, random, store, followUp = NO_FOLLOW_UP, ...retention }: EngineOptions,
  { time, events, reports, health, lease, node, partitions, fleet }: NodeParts,
  { destinations, policies, guardSaver }: Knowledge,
  { dueScan, queue, scheduler, runner, commitLoop }: TaskPath,
  storeClock: StoreClock | undefined,
): Duties {
  const exchange = new Exchange({
    clock,
    time,
    store,
    storeClock,
    node,
    lease,
    fleet,
    partitions,
    destinations,
    scheduler,
    queue,
    dueScan,
    reports,
    health,
  });
  const rescuer = new Rescuer({
    clock,
    time,
    store,
    random,
    node,
    partitions,
    health,
    queue,
    commitLoop,
    scheduler,
    events,
    destinations,
    policies,
    runner,
    followUp,
  });
  const maintenance = new Maintenance({
    clock,
    time,
    store,
    lease,
    exchange,
    fleet,
    partitions,
    clockWatch: new ClockWatch(time, events),
    health,
    events,
    destinations,
    guardSaver,
    queue,
    runner,
    rescuer,
    dueScan,
    retentionMs: retention.retentionMs,
    deadLetterRetentionMs: retention.deadLetterRetentionMs,
  });
  return { exchange, rescuer, maintenance };
}

function savedGuardsOf({ documents }: Store): ReadGuards {
  return async (tenantId, name) =>
    (await documents.get(GUARD_DOCUMENT, tenantId, name))?.text ?? null;
}

// Task operations: creates, cancels and retries single tasks through the commit queue.

interface TaskOperationsParts {
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly destinations: Destinations;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly runner: Runner;
  readonly events: EngineEvents;
}

/** The part of a canceled task that its event shows. */
type CancelledTask = Pick<NewTask, "destination" | "labels">;

class TaskOperations {
  readonly #parts: TaskOperationsParts;

  constructor(parts: TaskOperationsParts) {
    this.#parts = parts;
  }

  /** Calls `done` once the task is durable, or once the task of the same key is known. */
  create(
    task: NewTask,
    fingerprint: string | null,
    done: (result: CreateResult) => void,
    failed: (error: unknown) => void,
  ): void {
    const { node, destinations, queue } = this.#parts;
    if (!node.isRunning()) {
      failed(stopped());
      return;
    }
    const destination = destinations.getOrCreate(task.tenantId, task.destination);
    destination.users++;
    queue.addCreate({
      create: { task, fingerprint },
      destination,
      done: (result, now) => {
        destination.users--;
        if (result.kind === "created") this.#emitCreated(task, now);
        done(result);
      },
      failed: (error) => {
        destination.users--;
        failed(storeFailure(error));
      },
    });
  }

  #emitCreated(task: NewTask, now: number): void {
    const { tenantId, taskId, destination, labels, scheduledAt, policyId } = task;
    const event: WritableEventBody = { type: "task.created", tenantId, taskId, destination };
    event.policyId = policyId;
    event.nextAttemptAt = scheduledAt;
    const shown = eventLabels(labels);
    if (shown !== undefined) event.labels = shown;
    this.#parts.events.emit(now, event);
  }

  /** `task`: for the event, if it is known. */
  async cancel(request: CancelRequest, task?: CancelledTask): Promise<CancelResult> {
    const { time, scheduler, destinations, queue, runner, events } = this.#parts;
    const commit = () =>
      this.#commit<CancelResult>((done, failed) => queue.addCancel({ request, done, failed }));
    const result = await commit();
    // The task was claimed ahead of time and not sent: recalling its claim ends it, with an event,
    // before the second commit reads its state. If that commit fails, the first result is still
    // true, because the cancel request is stored.
    if (result.kind === "requested" && runner.recallClaim(request)) {
      return commit().catch(() => result);
    }
    if (result.kind === "cancelled") {
      const { tenantId, taskId, onEnd } = request;
      scheduleFollowUps(scheduler, destinations, onEnd, "CANCELLED");
      queue.request();
      const event: WritableEventBody = { type: "task.cancelled", tenantId, taskId };
      if (task !== undefined) event.destination = task.destination;
      const labels = task && eventLabels(task.labels);
      if (labels !== undefined) event.labels = labels;
      events.emit(time.now(), event);
    }
    return result;
  }

  /** Makes a waiting task due now. Guards still apply. Another node finds it by its next read. */
  async retryNow(request: TaskRef): Promise<RetryNowResult> {
    const { time, scheduler, destinations, queue } = this.#parts;
    const result = await this.#commit<RetryNowResult>((done, failed) =>
      queue.addRetryNow({ request, done, failed }),
    );
    if (result.kind === "rescheduled") {
      const destination = destinations.getOrCreate(request.tenantId, result.destination);
      const lane = destination.lanes[result.lane];
      scheduler.expectTask(lane, request.taskId, time.now());
      queue.request();
    }
    return result;
  }

  #commit<Result>(
    add: (done: (result: Result) => void, failed: (error: unknown) => void) => void,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (!this.#parts.node.isRunning()) return reject(stopped());
      add(resolve, (error) => reject(storeFailure(error)));
    });
  }
}

// Destination changes: writes a user's change to the row of a destination, based on the stored
// version. If another writer is first, the change is repeated on top of the new row.

interface DestinationChangesParts {
  readonly store: Pick<Store, "getDestination" | "commit">;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly events: EngineEvents;
  readonly reports: DocumentReports;
  readonly destinations: Destinations;
}

/** The columns that users may change: the pause, the document, and the circuit. */
type ChangedColumns = Partial<
  Pick<DestinationRow, "pausedAt" | "document" | "breakerState" | "openUntil" | "openCount">
>;

/** The new columns, or a function that computes them from the stored row. */
type DestinationChange = ChangedColumns | ((row: DestinationRow) => ChangedColumns);

/** Nodes write a row when its circuit or gate changes. Losing this often in a row is not chance. */
const MAX_TRIES = 10;

class DestinationChanges {
  readonly #parts: DestinationChangesParts;

  constructor(parts: DestinationChangesParts) {
    this.#parts = parts;
  }

  /**
   * `reason`: what was changed and by whom, for the event. Throws `DESTINATION_BUSY`, without a change, if
   * another writer was first each time.
   */
  async make(
    tenantId: string,
    name: string,
    change: DestinationChange,
    reason: string,
  ): Promise<DestinationRow> {
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      const written = await this.#try(tenantId, name, change);
      if (written === null) continue;
      const { events, time } = this.#parts;
      const about = { tenantId, destination: name, reason };
      if (isOpen(written.before) && !isOpen(written.row)) {
        events.emit(time.now(), { type: "breaker.closed", ...about });
      }
      events.emit(time.now(), { type: "destination.changed", ...about });
      return written.row;
    }
    const text = `another writer changed destination ${name} before each of ${MAX_TRIES} tries`;
    throw serviceError("DESTINATION_BUSY", `${text}; try again`);
  }

  /** Null: another writer was first. */
  async #try(tenantId: string, name: string, change: DestinationChange): Promise<Written | null> {
    const { store, time, node, scheduler, queue, reports, destinations } = this.#parts;
    const stored = await store.getDestination(tenantId, name);
    const before = await destinations.load(tenantId, name);
    if (stored !== null) before.adopt(stored, time.now());
    const current = before.row;
    const columns = typeof change === "function" ? change(current) : change;
    const row = { ...current, ...columns, version: current.version + 1 };
    const batch = { now: time.now(), nodeId: node.nodeId, ...EMPTY_BATCH };
    const result = await store.commit({ ...batch, destinations: [{ row }] });
    const winner = result.destinations[0] ?? null;
    // Looked up again, because it may have been dropped as idle meanwhile.
    const destination = destinations.getOrCreate(tenantId, name);
    const now = time.now();
    destination.adopt(winner ?? row, now);
    reports.record(destination.documentName, destination.reading);
    scheduler.unblock(destination, now);
    queue.request();
    return winner === null ? { before: current, row } : null;
  }
}

interface Written {
  readonly before: DestinationRow;
  readonly row: DestinationRow;
}
