/**
 * Engine: the parts of a node joined: it takes tasks in, has them attempted when they are due and
 * permitted, and settles them, on the clock, the chance, the store and the delivery it is given.
 */
import {
  type Clock,
  type Permit,
  type Random,
  RedriveError,
  type RetryBudget,
  type RetryBudgetDocument,
} from "@redrive/core";
import { codedStore, storeFailure } from "../model/coded-store.ts";
import { serviceError, stopped, unansweredStop } from "../model/errors.ts";
import type { Store } from "../model/store.ts";
import { StoreBrokenError } from "../model/store-errors.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import type { CancelRequest, CancelResult, CreateResult, RetryNowResult, StartedTask, TaskRef } from "../model/batch.ts";
import type { NewTask } from "../model/task.ts";
import { endsWithin } from "../time/settles-within.ts";
import type { TurnHost } from "./commit/commit-batch.ts";
import { CommitLoop } from "./commit/commit-loop.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import { Destinations } from "./destination/destinations.ts";
import { GUARD_DOCUMENT, GuardSaver, SERVICE_BUDGET_DOCUMENT } from "./destination/guard-saver.ts";
import { createServiceBudget, serviceBudgetOptions } from "./destination/service-retry-budget.ts";
import type { Hold } from "./destination/waiting-lane.ts";
import { type DestinationChange, DestinationChanges } from "./destination-changes.ts";
import { EngineEvents } from "./events/engine-events.ts";
import { Maintenance } from "./maintenance.ts";
import { EngineTime } from "./node/engine-time.ts";
import { NodeLease } from "./node/node-lease.ts";
import { PolicyCache } from "./policies/policy-cache.ts";
import type { Deliver } from "./run/delivery.ts";
import { type FollowUp, scheduleFollowUp } from "./run/follow-up-tasks.ts";
import { Rescuer } from "./run/rescuer.ts";
import { Runner } from "./run/runner.ts";
import { Scheduler } from "./schedule/scheduler.ts";

export interface EngineOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly store: Store;
  readonly deliver: Deliver;
  /** New at each boot. */
  readonly nodeId: string;
  /** The retry budget of all destinations together. Default: a fifth of first attempts, 100/s. */
  readonly retryBudget?: RetryBudgetDocument | false;
  /** How long before they are due tasks may be claimed. 0 to 1000 ms; 0: when due. Default: 8. */
  readonly claimAheadMs?: number | undefined;
  /** Ended tasks are kept this long. Default: 3 days. */
  readonly retentionMs?: number;
  /** Dead letters are kept this long. Default: 30 days. */
  readonly deadLetterRetentionMs?: number;
  /** Tasks that follow on the end of others. Default: none. */
  readonly followUp?: FollowUp;
  /** The store can no longer be relied on: the process is to end. */
  readonly onFatal?: (error: unknown) => void;
}

/** How long after its grace a stopping engine waits for its last commits. */
const LAST_COMMITS_MS = 2000;

type Phase = "new" | "running" | "stopping" | "stopped";

export class Engine implements TurnHost {
  readonly nodeId: string;
  readonly events: EngineEvents;
  readonly policies: PolicyCache;
  readonly #options: EngineOptions;
  readonly #changes: DestinationChanges;
  readonly destinations: Destinations;
  readonly #scheduler: Scheduler;
  /** The retry budget of all destinations together; undefined: off. */
  readonly serviceBudget: RetryBudget | undefined;
  readonly #time: EngineTime;
  readonly #turn: CommitLoop;
  readonly #runner: Runner;
  readonly #rescuer: Rescuer;
  readonly #lease: NodeLease;
  readonly #upkeep: Maintenance;
  readonly #notes: GuardSaver;
  #phase: Phase = "new";
  #whenDrained: (() => void) | undefined;

  /** Opens an engine on a store; it lives no earlier than what the store has seen. */
  static async open(options: EngineOptions): Promise<Engine> {
    const { store } = options;
    const { kind, tenantId, id } = SERVICE_BUDGET_DOCUMENT;
    const whole = store.exclusive ? await store.documents.get(kind, tenantId, id) : null;
    return new Engine(options, await store.latestAt(), whole?.text);
  }

  private constructor(options: EngineOptions, latestAt: number, whole: string | undefined) {
    const { clock, random, store, deliver, nodeId } = options;
    this.#options = options;
    this.nodeId = nodeId;
    const time = new EngineTime(clock, latestAt);
    const scheduler = new Scheduler(options.claimAheadMs);
    this.#scheduler = scheduler;
    const events = new EngineEvents(nodeId);
    const policies = new PolicyCache(store);
    this.#time = time;
    const budget = serviceBudgetOptions(options.retryBudget);
    this.serviceBudget = createServiceBudget(budget, time.now(), whole);
    this.destinations = new Destinations(time, random, this.serviceBudget);
    const notes = new GuardSaver(store.exclusive, this.serviceBudget);
    this.#notes = notes;
    this.events = events;
    this.policies = policies;
    const destinationOf = (tenantId: string, name: string) => this.destination(tenantId, name);
    const { followUp: follow = () => undefined } = options;
    const shared = { clock, time, random, policies, scheduler, events, destinationOf, follow };
    const mayStart = (now: number, claimedAt: number) =>
      this.#isActive(now) && claimedAt >= this.#lease.heldSince();
    this.#runner = new Runner({ ...shared, deliver, turn: () => this.#turn, mayStart });
    this.#turn = new CommitLoop({ clock, time, store, scheduler, notes, host: this });
    const runner = this.#runner;
    const turn = this.#turn;
    this.#rescuer = new Rescuer({ ...shared, nodeId, store, turn, runner });
    const coded = codedStore(store, (error) => this.failed(error));
    this.#changes = new DestinationChanges({ ...shared, nodeId, store: coded, turn });
    this.#lease = new NodeLease(store, time, nodeId);
    this.#upkeep = new Maintenance({
      clock,
      time,
      store,
      lease: this.#lease,
      rescuer: this.#rescuer,
      retentionMs: options.retentionMs,
      deadLetterRetentionMs: options.deadLetterRetentionMs,
      leaseLost: () => this.#leaseLost(),
      leaseBack: () => this.#turn.request(),
      noteOthers: () => this.#noteOthers(),
      noteGuards: () => this.#notes.isWaiting() && this.#turn.request(),
      dropIdle: () => this.destinations.dropIdle(),
      storeFailed: (error) => this.failed(error),
    });
  }

  /** Takes up what the store holds, and begins. */
  async start(): Promise<void> {
    if (this.#phase !== "new")
      throw serviceError("SERVICE_STOPPED", "the engine was started before");
    await this.#lease.renew();
    await this.#recallGuards();
    await this.#noteDue();
    this.#phase = "running";
    await this.#rescuer.runOnce(this.#time.now());
    this.#upkeep.start();
    this.#turn.request();
  }

  async #recallGuards(): Promise<void> {
    if (!this.#options.store.exclusive) return;
    for (const { tenantId, id, text } of await this.#options.store.documents.list(GUARD_DOCUMENT)) {
      this.destination(tenantId, id).restoreGuards(text);
    }
  }

  async #noteDue(): Promise<void> {
    for (const { tenantId, destination, lane, dueAt } of await this.#options.store.nextDue()) {
      this.#scheduler.expectDueAt(this.destination(tenantId, destination).lanes[lane], dueAt);
    }
    if (this.#phase === "running") this.#turn.request();
  }

  /** What other nodes have put in, and which pauses they have ended. */
  async #noteOthers(): Promise<void> {
    await this.#noteDue();
    for (const destination of this.destinations.values()) {
      if (destination.row.pausedAt === null) continue;
      const { tenantId, name } = destination;
      const row = await this.#options.store.getDestination(tenantId, name);
      if (row === null || row.version === destination.row.version) continue;
      const now = this.#time.now();
      destination.adopt(row, now);
      this.#scheduler.unblock(destination, now);
      this.#turn.request();
    }
  }

  /** False before it was started, and once it stops or has failed. */
  isRunning(): boolean {
    return this.#phase === "running";
  }

  /** Engine time. */
  now(): number {
    return this.#time.now();
  }

  destination(tenantId: string, name: string): DestinationRuntime {
    return this.destinations.getOrCreate(tenantId, name);
  }

  /** Calls back once the task is durable, or the key's own task is known. */
  create(
    task: NewTask,
    fingerprint: string | null,
    done: (result: CreateResult) => void,
    failed: (error: unknown) => void,
  ): void {
    if (this.#phase !== "running") {
      failed(stopped());
      return;
    }
    const destination = this.destination(task.tenantId, task.destination);
    destination.users++;
    const told = (result: CreateResult) => {
      destination.users--;
      if (result.kind === "created") this.#tellCreated(task);
      done(result);
    };
    const refused = (error: unknown) => {
      destination.users--;
      failed(storeFailure(error));
    };
    this.#turn.addCreate({
      create: { task, fingerprint },
      destination,
      done: told,
      failed: refused,
    });
  }

  #tellCreated({ tenantId, taskId, destination }: NewTask): void {
    this.events.emit(this.#time.now(), { type: "task.created", tenantId, taskId, destination });
  }

  async cancel(ref: CancelRequest): Promise<CancelResult> {
    const ask = () =>
      this.#ask<CancelResult>((done, failed) => this.#turn.addCancel({ ref, done, failed }));
    const result = await ask();
    // It was claimed ahead and has not left: it ends, and says so itself, before this is asked again.
    // Should asking fail, what was answered stands: the request is stored.
    if (result.kind === "requested" && this.#runner.recallClaim(ref))
      return ask().catch(() => result);
    if (result.kind === "cancelled") {
      const { tenantId, taskId, onEnd } = ref;
      const destinationOf = (tenant: string, name: string) => this.destination(tenant, name);
      scheduleFollowUp(this.#scheduler, destinationOf, onEnd, "CANCELLED");
      this.#turn.request();
      this.events.emit(this.#time.now(), { type: "task.cancelled", tenantId, taskId });
    }
    return result;
  }

  /** Runs a waiting task now. It passes no guard. */
  async retryNow(ref: TaskRef): Promise<RetryNowResult> {
    const result = await this.#ask<RetryNowResult>((done, failed) =>
      this.#turn.addWake({ ref, done, failed }),
    );
    if (result.kind === "rescheduled") {
      const { lanes } = this.destination(ref.tenantId, result.destination);
      this.#scheduler.expectDueAt(lanes[result.lane], this.#time.now());
      this.#turn.request();
    }
    return result;
  }

  #ask<Result>(
    add: (done: (result: Result) => void, failed: (error: unknown) => void) => void,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (this.#phase !== "running") return reject(stopped());
      add(resolve, (error) => reject(storeFailure(error)));
    });
  }

  /** Changes what people may change of a destination: its pause and its document. */
  changeDestination(
    tenantId: string,
    name: string,
    change: DestinationChange,
  ): Promise<DestinationRow> {
    return this.#changes.make(tenantId, name, change);
  }

  // What the turn asks of its host.

  mayClaim(now: number): boolean {
    return this.#isActive(now) && !this.#runner.isAlone();
  }

  #isActive(now: number): boolean {
    return this.#phase === "running" && this.#lease.isHeld(now);
  }

  running(): number {
    return this.#runner.running();
  }

  underWay(): number {
    return this.#runner.underWay();
  }

  carryOut(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    hold: Hold | undefined,
  ): void {
    this.#runner.start(task, destination, permit, hold);
  }

  committed(): void {
    this.events.emit(this.#time.now(), { type: "store.recovered" });
  }

  failed(error: unknown): void {
    const now = this.#time.now();
    this.#rescuer.suspect(now);
    const reason = error instanceof Error ? error.message : String(error);
    const code = error instanceof RedriveError ? `${error.code}: ` : "";
    this.events.emit(now, { type: "store.failed", reason: code + reason });
    if (error instanceof StoreBrokenError) this.#fail(error);
  }

  /** Nothing may be acknowledged any more. */
  #fail(error: unknown): void {
    if (this.#phase === "stopped") return;
    this.#phase = "stopped";
    this.#upkeep.stop();
    this.#turn.close(storeFailure(error));
    this.#runner.abort(error);
    this.#whenDrained?.();
    const reason = error instanceof Error ? error.message : String(error);
    this.events.emit(this.#time.now(), { type: "node.failed", reason });
    this.#options.onFatal?.(error);
  }

  /**
   * Claims no more, lets what runs end for at most `graceMs`, then ends it, and gives up the lease. A
   * store that takes nothing, or does not answer, is waited for two seconds more: what could not be
   * settled is abandoned. Safe to call twice.
   */
  async stop(graceMs = 30_000): Promise<void> {
    if (this.#phase !== "running") return;
    this.#phase = "stopping";
    const { clock } = this.#options;
    const lastMs = clock.monotonicMs() + graceMs + LAST_COMMITS_MS;
    const abort = () => this.#runner.abort(new Error("the service is stopping"));
    const cancelGrace = clock.alarm(graceMs, abort);
    const cancelLast = clock.alarm(graceMs + LAST_COMMITS_MS, () => this.#whenDrained?.());
    await this.#drained();
    cancelGrace();
    cancelLast();
    this.#upkeep.stop();
    if (this.#isFailed()) return;
    const leftMs = Math.min(LAST_COMMITS_MS, Math.max(0, lastMs - clock.monotonicMs()));
    if (!(await endsWithin(clock, leftMs, this.#sayLast()))) this.failed(unansweredStop());
    if (this.#isFailed()) return;
    this.#phase = "stopped";
    this.#turn.close(stopped());
  }

  /** What the guards have learnt, and that this node is gone. A lease that is not given up lapses. */
  async #sayLast(): Promise<void> {
    const { store, nodeId } = this.#options;
    const author = { now: this.#time.now(), nodeId };
    await this.#notes.writeAll(store, author).catch((error: unknown) => this.failed(error));
    await store.retire(nodeId).catch(() => {});
  }

  #isFailed(): boolean {
    return this.#phase === "stopped";
  }

  /** Resolves once nothing is held and nothing waits to be committed. */
  #drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenDrained = resolve;
      this.idle();
    });
  }

  idle(): void {
    if (this.#runner.held() === 0 && this.#turn.isIdle()) this.#whenDrained?.();
  }

  #leaseLost(): void {
    this.events.emit(this.#time.now(), { type: "node.lease-lost" });
    this.#runner.abort(new Error("the node's lease is lost"));
  }
}
