/**
 * Commit loop: writes the items of the commit queue to the store. At the end of a turn of the event
 * loop, it commits all waiting items in one transaction, together with the claims that the scheduler
 * plans, and reports the results. Items that arrive while a commit runs wait for the next one, unless
 * two may overlap.
 *
 * After a failed commit, the effect of every item is unknown. The loop repeats the settles (the claim
 * epoch prevents a double effect), reports the failure to everyone who waits, and returns permits. If
 * the store refused the content of the commit, only the items that cause it fail.
 */

import {
  type Cancel,
  type Clock,
  formatCount,
  messageOf,
  type Permit,
  RedriveError,
} from "@redrive/core";
import type {
  Batch,
  CancelRequest,
  CancelResult,
  CommitResult,
  Create,
  CreateResult,
  OnEnd,
  RetryNowResult,
  Settle,
  SettleResult,
  StartedTask,
  TaskRef,
} from "../model/batch.ts";
import { type DestinationRow, isOpen } from "../model/destination-row.ts";
import { type LaneDue, WAKE_UP_MS } from "../model/lane-due.ts";
import { COMMIT_EXPIRES_MS, type Store } from "../model/store.ts";
import { StoreBrokenError, StoreRefusedError } from "../model/store-errors.ts";
import type { AttemptLog, NewTask } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import type { DocumentReports, EngineEvents, WritableEventBody } from "./events.ts";
import type { GuardSaver } from "./guard-saver.ts";
import type { Hold } from "./lanes.ts";
import type { NodeState, OwnPartitions } from "./node.ts";
import {
  assignSlots,
  claimRequestOf,
  isSuspectClaim,
  type PlannedClaim,
  type Scheduler,
  stopArrivals,
} from "./scheduler.ts";
import { originOf } from "./slots.ts";

interface CommitLoopParts extends OverlapParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly node: NodeState;
  readonly health: StoreHealth;
  readonly reports: DocumentReports;
  readonly events: EngineEvents;
  readonly scheduler: Scheduler;
  readonly guardSaver: GuardSaver;
  readonly partitions: OwnPartitions;
  readonly runner: ClaimRunner;
}

export class CommitLoop {
  readonly #parts: CommitLoopParts;
  readonly #delay = new CommitDelay();
  readonly #refusals: RefusedItems;
  readonly #alarm: CommitAlarm;
  readonly #pause: CommitPause;
  readonly #workBetween = new WorkBetween();
  /** Called whenever a flush ends without a commit to make. */
  onIdle: (() => void) | undefined;
  readonly #running = new RunningCommits({
    succeed: (commit, result) => this.#succeed(commit, result),
    fail: (commit, error) => this.#handleFailure(commit, error),
    resume: () => this.#continue(),
  });
  readonly #overlap: CommitOverlap;
  #isRequested = false;
  #isClosed = false;
  #closedBy: unknown;
  /** A commit that claimed a suspect failed, and its claim may be stored. */
  #mayHaveUnknownSuspect = false;

  constructor(parts: CommitLoopParts) {
    this.#parts = parts;
    this.#alarm = new CommitAlarm(parts.clock, parts.time, () => this.#request());
    this.#pause = new CommitPause(parts.clock);
    this.#overlap = new CommitOverlap(parts, this.#running);
    const { clock, store, queue, health } = parts;
    this.#refusals = new RefusedItems({
      clock,
      store,
      queue,
      health,
      context: () => this.#context(),
      isClosed: () => this.#isClosed,
    });
    parts.queue.onRequest(() => this.#request());
  }

  /** Requests a commit at the end of this turn of the event loop. */
  #request(): void {
    if (this.#isRequested || !this.#mayStart()) return;
    this.#isRequested = true;
    this.#parts.clock.endOfTurn(this.#flush);
  }

  #mayStart(): boolean {
    if (this.#pause.isActive || this.#workBetween.isRunning || this.#isClosed) return false;
    if (this.#running.count === 0) return true;
    return this.#workBetween.work === undefined && this.#overlap.mayOverlap();
  }

  /** Runs `work` as soon as no commit runs. */
  betweenCommits(work: () => Promise<void>): void {
    if (this.#isClosed) return;
    this.#workBetween.request(work);
    this.#startWork();
  }

  #startWork(): boolean {
    if (this.#isClosed || this.#pause.isActive || this.#running.count > 0) return false;
    return this.#workBetween.start(() => this.#request());
  }

  /** True when every item has been committed. */
  isIdle(): boolean {
    const isBusy = this.#running.count > 0 || this.#pause.isActive || this.#workBetween.isRunning;
    return !isBusy && this.#parts.queue.isEmpty();
  }

  /** Commits nothing more. Everyone who waits gets the error. */
  close(error: unknown): void {
    this.#isClosed = true;
    this.#closedBy = error;
    this.#alarm.cancel();
    this.#pause.cancel();
    this.#parts.queue.failAll(error);
  }

  readonly #flush = (): void => {
    const { clock, queue, runner } = this.#parts;
    if (this.#delay.mayDelay(queue.settleCount, runner.running())) {
      clock.endOfTurn(this.#flush);
      return;
    }
    this.#isRequested = false;
    if (!this.#mayStart()) return;
    if (this.#start()) this.#request();
    else this.#arm();
  };

  /** Starts a commit of what waits. Returns false if there is nothing to commit. */
  #start(): boolean {
    const max = this.#overlap.itemsToTake();
    const { store, time } = this.#parts;
    const expiresAt = store.exclusive ? null : time.referenceNow() + COMMIT_EXPIRES_MS;
    const context = this.#context();
    const commit = gatherCommit(this.#parts, context, expiresAt, max, this.#mayClaimSuspect);
    if (commit === undefined) return false;
    this.#running.start(commit, store.commit(commit.batch));
    return true;
  }

  #handleFailure(commit: PendingCommit, error: unknown): Promise<void> | undefined {
    if (error instanceof StoreRefusedError && !this.#isClosed) return this.#recover(commit);
    this.#fail([commit], error);
    return undefined;
  }

  /**
   * At most one suspect is claimed in the name of this node, so that a crash accuses only one. The
   * store may also hold one whose claim this node does not know.
   */
  readonly #mayClaimSuspect = (): boolean => {
    const { runner, health } = this.#parts;
    this.#mayHaveUnknownSuspect &&= health.mayHaveUnknownClaims();
    if (this.#running.hasSuspect()) return false;
    return !runner.hasSuspect() && !this.#mayHaveUnknownSuspect;
  };

  #context(): CommitContext {
    const { scheduler, runner, reports, events, time } = this.#parts;
    return { scheduler, runner, reports, events, now: time.now() };
  }

  #succeed(commit: PendingCommit, result: CommitResult): void {
    if (this.#isClosed) {
      // The commit may have happened, but nobody may rely on it.
      failItems(commit, this.#closedBy);
      return;
    }
    if (this.#pause.failures > 0) this.#parts.health.recordRecovery();
    this.#pause.failures = 0;
    applyResult(this.#context(), commit, result);
    this.#startNext();
    this.#continue();
  }

  #startNext(): void {
    const isReady = this.#overlap.isNextReady() && this.#workBetween.work === undefined;
    if (isReady && this.#mayStart()) this.#start();
  }

  #continue(): void {
    if (this.#startWork()) return;
    if (this.#parts.queue.isEmpty()) this.#arm();
    else this.#request();
  }

  /** `commits`: one commit, or the parts of one that was divided. */
  #fail(commits: readonly PendingCommit[], error: unknown): void {
    const { queue, guardSaver, health } = this.#parts;
    if (this.#isClosed) {
      for (const commit of commits) failItems(commit, this.#closedBy);
      return;
    }
    guardSaver.recordFailure();
    for (const commit of commits) {
      const written = commit.written.map(({ destination }) => destination);
      queue.restore(commit.settles, written);
      applyFailure(this.#context(), commit, error);
      this.#mayHaveUnknownSuspect ||= commit.claims.some(isSuspectClaim);
    }
    this.#pause.begin(() => this.#continue());
    health.recordCommitFailure(error);
  }

  /** The store refused the content of the commit: only the items that cause it fail. */
  async #recover(commit: PendingCommit): Promise<void> {
    const { parts, error } = await this.#refusals.recover(commit);
    if (parts.length > 0 || this.#isClosed) this.#fail(parts, error);
  }

  /** One alarm, for the earliest lane or the next guard state to save. */
  #arm(): void {
    this.onIdle?.();
    this.#alarm.set(this.#nextAt());
  }

  /** A suspect that waits for another one needs no alarm: each commit of a settle arms again. */
  #nextAt(): number {
    const { time, node, scheduler, guardSaver } = this.#parts;
    if (this.#isClosed || !node.isActive()) return Number.POSITIVE_INFINITY;
    const lanesAt = scheduler.nextAt(time.now(), this.#mayClaimSuspect);
    return Math.min(lanesAt, guardSaver.nextAt());
  }
}

// Commit alarm: rings when the next commit has something to do, for example because a lane is due.

class CommitAlarm {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #ring: () => void;
  #at = Number.POSITIVE_INFINITY;
  #cancel: Cancel | undefined;

  constructor(clock: Clock, time: EngineTime, ring: () => void) {
    this.#clock = clock;
    this.#time = time;
    this.#ring = ring;
  }

  /** Replaces the instant. Infinity: it does not ring. */
  set(at: number): void {
    if (at === this.#at) return;
    this.cancel();
    this.#at = at;
    if (!Number.isFinite(at)) return;
    this.#cancel = this.#clock.alarm(this.#time.msUntil(at), () => {
      this.#at = Number.POSITIVE_INFINITY;
      this.#ring();
    });
  }

  cancel(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

// Commit pause: after a failed commit, the next one waits: 50 ms, doubling to one second.

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

class CommitPause {
  readonly #clock: Clock;
  #cancel: Cancel | undefined;
  /** Commits in a row that failed. */
  failures = 0;
  isActive = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `done` after the pause. */
  begin(done: () => void): void {
    this.isActive = true;
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures++);
    this.#cancel?.();
    this.#cancel = this.#clock.alarm(pauseMs, () => {
      this.isActive = false;
      done();
    });
  }

  /** `done` is not called any more. */
  cancel(): void {
    this.#cancel?.();
  }
}

// Commit delay: a busy node waits a few turns of the event loop for more items, because an fsync costs
// the same for one row and for a hundred. While attempts keep ending, more are about to end. An idle
// node does not wait, and neither does a node whose attempts all hang.

/** With this many running attempts a node is busy. It delays a commit by at most this many turns. */
const BUSY_RUNNING = 16;
const MAX_DELAYED_TURNS = 4;

class CommitDelay {
  #delayedTurns = 0;
  #settlesBefore = 0;

  /** Called once per turn, with the number of waiting settles and of running attempts. */
  mayDelay(settles: number, running: number): boolean {
    const isBusy = running >= BUSY_RUNNING && settles > this.#settlesBefore && settles < running;
    const delays = isBusy && this.#delayedTurns < MAX_DELAYED_TURNS;
    this.#delayedTurns = delays ? this.#delayedTurns + 1 : 0;
    this.#settlesBefore = delays ? settles : 0;
    return delays;
  }
}

// Work between commits: a read of the store that must not run beside a commit, so that the claims that it
// finds are those that this node knows.

class WorkBetween {
  /** Undefined: none waits. */
  work: (() => Promise<void>) | undefined;
  isRunning = false;

  /** Replaces work that has not started. */
  request(work: () => Promise<void>): void {
    if (!this.isRunning) this.work = work;
  }

  /** No commit runs: starts the work, if there is any, and calls `done` after it. Returns true if it did. */
  start(done: () => void): boolean {
    const { work } = this;
    if (work === undefined) return false;
    this.work = undefined;
    this.isRunning = true;
    const end = () => {
      this.isRunning = false;
      done();
    };
    work().then(end, end);
    return true;
  }
}

// Running commits: the commits of one loop that are under way. Their results are applied in the order in
// which they started, whichever arrives first. So the settle of a claim is applied before a later claim
// of the same task, and events have the order of what happened.

interface CommitHandlers {
  readonly succeed: (commit: PendingCommit, result: CommitResult) => void;
  /** Later results wait for the promise, if it returns one. Then `resume` is called. */
  readonly fail: (commit: PendingCommit, error: unknown) => Promise<void> | undefined;
  readonly resume: () => void;
}

interface RunningCommit {
  readonly commit: PendingCommit;
  /** Applies the result; undefined: it has not arrived. */
  apply: (() => Promise<void> | undefined) | undefined;
}

export class RunningCommits {
  readonly #handlers: CommitHandlers;
  readonly #running: RunningCommit[] = [];
  /** The result of one commit is being applied by a promise. */
  #isApplying = false;
  /** How many are under way. */
  count = 0;

  constructor(handlers: CommitHandlers) {
    this.#handlers = handlers;
  }

  /**
   * May another commit start now? The version of a row that is being written is not known, and a result
   * that needs several commits may change what the next one should contain.
   */
  get mayOverlap(): boolean {
    return !this.#isApplying && this.#running.every(({ commit }) => commit.written.length === 0);
  }

  hasSuspect(): boolean {
    return this.#running.some(({ commit }) => commit.claims.some(isSuspectClaim));
  }

  start(commit: PendingCommit, result: Promise<CommitResult>): void {
    const { succeed, fail } = this.#handlers;
    const running: RunningCommit = { commit, apply: undefined };
    this.#running.push(running);
    this.count++;
    result.then(
      (value) => this.#arrive(running, () => void succeed(commit, value)),
      (error: unknown) => this.#arrive(running, () => fail(commit, error)),
    );
  }

  #arrive(running: RunningCommit, apply: RunningCommit["apply"]): void {
    running.apply = apply;
    this.#applyNext();
  }

  #applyNext(): void {
    while (!this.#isApplying && this.#running[0]?.apply !== undefined) {
      this.count--;
      const applied = this.#running.shift()?.apply?.();
      if (applied !== undefined) this.#waitFor(applied);
    }
  }

  #waitFor(applied: Promise<void>): void {
    this.#isApplying = true;
    this.count++;
    const resume = () => {
      this.#isApplying = false;
      this.count--;
      this.#handlers.resume();
      this.#applyNext();
    };
    applied.then(resume, resume);
  }
}

// Commit overlap: when a commit may start beside a running one, and how many items it takes. In a shared
// store, two commits overlap, so that the server works while the node does (`docs/decisions/0041`).

/** More would only make commits smaller. */
const MAX_RUNNING = 2;
/** Of a store that does not say it. */
const MIN_OVERLAP_ITEMS = 128;
/** With this many items the next commit starts at once. Fewer wait for others. */
const MIN_NEXT_ITEMS = 64;

interface OverlapParts {
  readonly store: Pick<Store, "exclusive" | "overlapItems">;
  readonly queue: CommitQueue;
  /** Replaces that of the store. At least 1. */
  readonly overlapItems?: number | undefined;
}

export class CommitOverlap {
  readonly #overlapItems: number;
  readonly #nextItems: number;
  readonly #queue: CommitQueue;
  readonly #running: RunningCommits;

  constructor({ store, queue, overlapItems }: OverlapParts, running: RunningCommits) {
    const shared = overlapItems ?? store.overlapItems ?? MIN_OVERLAP_ITEMS;
    this.#overlapItems = store.exclusive ? Number.POSITIVE_INFINITY : shared;
    this.#nextItems = store.exclusive ? Number.POSITIVE_INFINITY : MIN_NEXT_ITEMS;
    this.#queue = queue;
    this.#running = running;
  }

  /** May a commit start beside a running one? */
  mayOverlap(): boolean {
    const isFree = this.#running.count < MAX_RUNNING && this.#running.mayOverlap;
    return isFree && this.#queue.itemCount >= this.#overlapItems;
  }

  /**
   * May the next commit start as soon as the last one has ended? The server would be idle if it waited
   * for the end of the turn, and for more items.
   */
  isNextReady(): boolean {
    return this.#queue.itemCount >= this.#nextItems;
  }

  /**
   * How many items the next commit takes. If no commit runs and enough items wait for two, each takes
   * half: the callers of one then add their next items while the server works on the other. If rows
   * of destinations wait, the commit that writes them overlaps with none, so it takes all. Rows that its
   * own items change are not known yet.
   */
  itemsToTake(): number {
    const count = this.#queue.itemCount;
    const isEnough = count >= 2 * this.#overlapItems;
    const isDivided = this.#running.count === 0 && isEnough && !this.#queue.hasChanged();
    return isDivided ? Math.ceil(count / 2) : count;
  }
}

// Store health: records failures of the store and publishes them as events. After a failed commit
// the store may hold claims and tasks that this node does not know; the rescuer and the due scan read
// here whether to look for them. No other failure makes this node ask the store for more.

/** A failed commit may still take effect within this time. */
const UNKNOWN_CLAIMS_MS = 60_000;

const MESSAGES_REPORT_MS = 60_000;

/** So many commits must have failed, for so long, before this node counts as one that cannot commit. */
const MIN_FAILURES = 3;
const FAILING_MS = 5000;
/** After this time without a commit it is open whether the node can commit: the next ones tell. */
const FORGET_MS = 30_000;

export class StoreHealth {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #events: EngineEvents;
  readonly #broken: (error: unknown) => void;
  /**
   * The store may hold unknown claims until a check that starts after this finds none; 0: no. On the
   * monotonic clock: engine time may follow a step of the wall clock meanwhile.
   */
  #unknownClaimsUntilMs = 0;
  #commitFailedMs = Number.NEGATIVE_INFINITY;
  /** Commits that failed since the last one that succeeded, and when the first of them did. */
  #failures = 0;
  #failingSinceMs = 0;
  #unreadableMessages = 0;
  #messagesReportedMs = Number.NEGATIVE_INFINITY;

  /** `broken` is called when the store can no longer guarantee its content. */
  constructor(
    clock: Clock,
    time: EngineTime,
    events: EngineEvents,
    broken: (error: unknown) => void,
  ) {
    this.#clock = clock;
    this.#time = time;
    this.#events = events;
    this.#broken = broken;
  }

  mayHaveUnknownClaims(): boolean {
    return this.#unknownClaimsUntilMs > 0;
  }

  /** Starts a check of the claims of this node. Call the result once it has seen all of them. */
  startClaimCheck(): () => void {
    const startMs = this.#clock.monotonicMs();
    return () => {
      if (startMs >= this.#unknownClaimsUntilMs) this.#unknownClaimsUntilMs = 0;
    };
  }

  /** On the monotonic clock: when the last commit failed that may still take effect. */
  get commitFailedMs(): number {
    return this.#commitFailedMs;
  }

  /** False: the last commits have failed, for some time. Reads and renewals may still succeed. */
  canCommit(): boolean {
    if (this.#failures < MIN_FAILURES) return true;
    const nowMs = this.#clock.monotonicMs();
    return nowMs < this.#failingSinceMs + FAILING_MS || nowMs >= this.#commitFailedMs + FORGET_MS;
  }

  /** A commit failed: it is unknown what was stored. */
  recordCommitFailure(error: unknown): void {
    if (!(error instanceof StoreRefusedError)) {
      const nowMs = this.#clock.monotonicMs();
      if (nowMs >= this.#commitFailedMs + FORGET_MS) this.#failures = 0;
      if (this.#failures++ === 0) this.#failingSinceMs = nowMs;
      this.#commitFailedMs = nowMs;
      this.#unknownClaimsUntilMs = this.#commitFailedMs + UNKNOWN_CLAIMS_MS;
    }
    this.recordFailure(error);
  }

  /** A call of the store failed. If it was a commit, see `recordCommitFailure`. */
  recordFailure(error: unknown): void {
    if (error instanceof StoreRefusedError) {
      this.recordRefusal(error);
      return;
    }
    const now = this.#time.now();
    const code = error instanceof RedriveError ? `${error.code}: ` : "";
    this.#events.emit(now, { type: "store.failed", reason: code + messageOf(error) });
    if (error instanceof StoreBrokenError) this.#broken(error);
  }

  /** The store refuses one item because of its content. `task`: the item is about this task. */
  recordRefusal(error: unknown, task: Partial<TaskRef> = {}): void {
    const { tenantId, taskId } = task;
    const event: WritableEventBody = { type: "store.refused", reason: messageOf(error) };
    if (tenantId !== undefined) event.tenantId = tenantId;
    if (taskId !== undefined) event.taskId = taskId;
    this.#events.emit(this.#time.now(), event);
  }

  /** A message on the channel of the store is not from a node. Reported once a minute, with their number. */
  recordUnreadableMessage(): void {
    this.#unreadableMessages++;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#messagesReportedMs + MESSAGES_REPORT_MS) return;
    this.#messagesReportedMs = nowMs;
    const count = formatCount(this.#unreadableMessages, "message");
    const reason = `${count} on the store's channel were not from a Redrive node of this version`;
    this.#events.emit(this.#time.now(), { type: "store.messages-unreadable", reason });
    this.#unreadableMessages = 0;
  }

  /** A commit succeeded after a failure. */
  recordRecovery(): void {
    this.#failures = 0;
    this.#events.emit(this.#time.now(), { type: "store.recovered" });
  }
}

// Commit queue: the items that wait for the next commit. The other parts of the engine add items;
// the commit loop takes them, and calls `done` or `failed` of each item when its commit ends. Tenants
// share the items of a commit equally.

export interface CreateItem {
  readonly create: Omit<Create, "claimVersion">;
  readonly destination: DestinationRuntime;
  /** `now`: when it was committed. */
  readonly done: (result: CreateResult, now: number) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * A settle has no `failed`: it is repeated until it is committed. If the store refuses its content, it
 * is repeated with less content (`refused-items.ts`).
 */
export interface SettleItem {
  readonly settle: Settle;
  readonly destination: DestinationRuntime;
  readonly done: (result: SettleResult, now: number) => void;
  /** How often the store refused its content. Default: never. */
  readonly refusals?: number;
}

/** A request about one task. */
interface RequestItem<Request extends TaskRef, Result> {
  readonly request: Request;
  readonly done: (result: Result, now: number) => void;
  readonly failed: (error: unknown) => void;
}

type CancelItem = RequestItem<CancelRequest, CancelResult>;
type RetryNowItem = RequestItem<TaskRef, RetryNowResult>;

/** The items of one commit. */
export interface CommitItems {
  readonly creates: readonly CreateItem[];
  readonly settles: readonly SettleItem[];
  readonly cancels: readonly CancelItem[];
  readonly retryNows: readonly RetryNowItem[];
}

export class CommitQueue {
  readonly #creates = new TurnQueue<CreateItem>();
  readonly #settles = new TurnQueue<SettleItem>();
  readonly #cancels = new TurnQueue<CancelItem>();
  readonly #retryNows = new TurnQueue<RetryNowItem>();
  #changed = new Set<DestinationRuntime>();
  #listener: (() => void) | undefined;
  /** The items about tasks that wait, and the settles among them. */
  itemCount = 0;
  settleCount = 0;

  /** The commit loop listens for requests. */
  onRequest(listener: () => void): void {
    this.#listener = listener;
  }

  /** Requests a commit, for example because a lane is due. */
  request(): void {
    this.#listener?.();
  }

  addCreate(item: CreateItem): void {
    this.itemCount++;
    this.#creates.push(item.create.task.tenantId, item);
    this.request();
  }

  addSettle(item: SettleItem): void {
    this.itemCount++;
    this.settleCount++;
    this.#settles.push(item.settle.tenantId, item);
    this.request();
  }

  addCancel(item: CancelItem): void {
    this.itemCount++;
    this.#cancels.push(item.request.tenantId, item);
    this.request();
  }

  addRetryNow(item: RetryNowItem): void {
    this.itemCount++;
    this.#retryNows.push(item.request.tenantId, item);
    this.request();
  }

  /** The row of the destination is to be written, if it has changed. */
  addChanged(destination: DestinationRuntime): void {
    this.#changed.add(destination);
    this.request();
  }

  /** Rows of destinations wait. */
  hasChanged(): boolean {
    return this.#changed.size > 0;
  }

  isEmpty(): boolean {
    return this.itemCount === 0 && this.#changed.size === 0;
  }

  /** Takes at most `max` items, but always one create if there is one. */
  take(max: number): CommitItems {
    const settles = this.#settles.take(max);
    const cancels = this.#cancels.take(max - settles.length);
    const retryNows = this.#retryNows.take(max - settles.length - cancels.length);
    const taken = settles.length + cancels.length + retryNows.length;
    const creates = this.#creates.take(Math.max(1, max - taken));
    this.itemCount -= taken + creates.length;
    this.settleCount -= settles.length;
    return { creates, settles, cancels, retryNows };
  }

  /** Takes the destinations whose row a failed commit did not write. */
  takeChanged(): Set<DestinationRuntime> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Puts the settles and rows of a failed commit back. The epoch makes a repeat safe. */
  restore(settles: readonly SettleItem[], changed: readonly DestinationRuntime[]): void {
    for (const item of settles.toReversed()) this.#settles.pushFirst(item.settle.tenantId, item);
    this.itemCount += settles.length;
    this.settleCount += settles.length;
    for (const destination of changed) this.#changed.add(destination);
  }

  /** Drops all items except changed destinations. Everyone who waits gets the error. */
  failAll(error: unknown): void {
    failItems(this.take(Number.POSITIVE_INFINITY), error);
  }
}

const NOTHING: readonly never[] = [];

/**
 * Items of several tenants. Those that are taken together are divided equally among the tenants that
 * have items, so a tenant with many items delays the others by one round. The items of one tenant keep
 * their order.
 */
export class TurnQueue<Item> {
  /** In the order of the next turns. No list is empty. */
  readonly #byTenant = new Map<string, Item[]>();
  #length = 0;

  push(tenantId: string, item: Item): void {
    this.#length++;
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) this.#byTenant.set(tenantId, [item]);
    else own.push(item);
  }

  /** Puts an item before the others of its tenant. */
  pushFirst(tenantId: string, item: Item): void {
    const own = this.#byTenant.get(tenantId);
    if (own === undefined) {
      this.push(tenantId, item);
      return;
    }
    this.#length++;
    own.unshift(item);
  }

  /** Removes and returns at most `max` items. */
  take(max: number): readonly Item[] {
    if (this.#length === 0) return NOTHING;
    const items: Item[] = [];
    while (items.length < max && this.#length > 0) this.#takeRound(max, items);
    return items;
  }

  /** One turn of each tenant. A tenant that has more items is next after all others. */
  #takeRound(max: number, items: Item[]): void {
    let tenants = this.#byTenant.size;
    for (const [tenantId, own] of [...this.#byTenant]) {
      const left = max - items.length;
      if (left === 0) return;
      const taken = own.splice(0, Math.max(1, Math.floor(left / tenants--)));
      this.#length -= taken.length;
      for (const item of taken) items.push(item);
      this.#byTenant.delete(tenantId);
      if (own.length > 0) this.#byTenant.set(tenantId, own);
    }
  }
}

/** Reports the error to everyone who waits for a result. */
export function failItems(
  { creates, cancels, retryNows }: Pick<CommitItems, "creates" | "cancels" | "retryNows">,
  error: unknown,
): void {
  for (const item of [...creates, ...cancels, ...retryNows]) item.failed(error);
}

// Commit batch: builds the batch of one commit from items, planned claims and changed rows.

/** A commit that is under way: its batch, and what is needed to handle its result. */
export interface PendingCommit extends CommitItems {
  readonly batch: Batch;
  /** At the index of each create: the permit to start with, if any. */
  readonly permits: readonly (Permit | undefined)[];
  readonly claims: readonly PlannedClaim[];
  /** The destinations whose rows are written, in the order of the batch. */
  readonly written: readonly WrittenDestination[];
}

interface WrittenDestination {
  readonly destination: DestinationRuntime;
  /** The breaker was not closed in the row that the written one replaces. */
  readonly wasOpen: boolean;
}

/**
 * The commit without claims, and starts of new tasks, at destinations whose row it writes. A shared
 * store is atomic per partition only, and the row may be in another one. The claims wait until the row
 * is stored: if another node has written it first, they must not be made.
 */
function rowsFirst(commit: PendingCommit): RowsFirst {
  const isWritten = (destination: DestinationRuntime) =>
    commit.written.some((one) => one.destination === destination);
  const isDeferred = commit.claims.map(({ lane }) => isWritten(lane.destination));
  const starts = commit.creates.flatMap((item, index) => {
    const permit = commit.permits[index];
    return permit !== undefined && isWritten(item.destination) ? [{ item, permit }] : [];
  });
  const isDeferredStart = commit.creates.map(({ destination }) => isWritten(destination));
  const { batch } = commit;
  return {
    claims: commit.claims.filter((_, index) => isDeferred[index]),
    starts,
    commit: {
      ...commit,
      claims: commit.claims.filter((_, index) => !isDeferred[index]),
      permits: commit.permits.map((one, index) => (isDeferredStart[index] ? undefined : one)),
      batch: {
        ...batch,
        claims: batch.claims.filter((_, index) => !isDeferred[index]),
        creates: batch.creates.map((create, index) =>
          isDeferredStart[index] ? { ...create, claimVersion: null } : create,
        ),
      },
    },
  };
}

/** A commit, and what is left out of it. */
interface RowsFirst {
  readonly commit: PendingCommit;
  readonly claims: readonly PlannedClaim[];
  readonly starts: readonly { readonly item: CreateItem; readonly permit: Permit }[];
}

interface CommitBatchParts {
  readonly guardSaver: GuardSaver;
  readonly partitions: OwnPartitions;
}

/** Is there nothing to write? */
function isEmptyBatch(batch: Batch): boolean {
  const { destinations, creates, settles, cancels, retryNows, claims, documents } = batch;
  const tasks = creates.length + settles.length + cancels.length + retryNows.length + claims.length;
  return tasks + destinations.length + documents.length === 0;
}

/** Builds a commit; undefined if there is nothing to write. */
function buildCommit(
  author: Pick<Batch, "now" | "expiresAt" | "nodeId">,
  items: CommitItems,
  permits: readonly (Permit | undefined)[],
  claims: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
  { guardSaver, partitions }: CommitBatchParts,
): PendingCommit | undefined {
  const rows = changedRows(items, permits, claims, changed);
  for (const destination of changed) guardSaver.recordChange(destination);
  const documents = guardSaver.take(author.now);
  const { creates, settles, cancels, retryNows } = items;
  const count = creates.length + settles.length + cancels.length + retryNows.length;
  if (count + claims.length + rows.size + documents.length === 0) return undefined;
  const versionOf = (destination: DestinationRuntime) =>
    (rows.get(destination) ?? destination.row).version;
  // Field by field: spread would create a new hidden class for every batch.
  const batch: Batch = {
    now: author.now,
    expiresAt: author.expiresAt,
    nodeId: author.nodeId,
    destinations: [...rows.values()].map((row) => ({ row })),
    creates: creates.map(({ create, destination }, index) => ({
      task: create.task,
      fingerprint: create.fingerprint,
      claimVersion: permits[index] === undefined ? null : versionOf(destination),
    })),
    settles: settles.map(({ settle }) => settle),
    cancels: cancels.map(({ request }) => request),
    retryNows: retryNows.map(({ request }) => request),
    claims: claims.map((claim) => claimRequestOf(claim, versionOf(claim.lane.destination))),
    wakeUps: wakeUpsOf(items, permits, partitions, author.now + WAKE_UP_MS),
    documents,
  };
  const written = [...rows.keys()].map((destination) => ({
    destination,
    wasOpen: isOpen(destination.row),
  }));
  return { creates, settles, cancels, retryNows, batch, permits, claims, written };
}

/**
 * The rows to write. Only a destination that settled or gave a permit can have changed; those are
 * added to `changed`.
 */
function changedRows(
  { settles, creates }: CommitItems,
  permits: readonly (Permit | undefined)[],
  claims: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
): Map<DestinationRuntime, DestinationRow> {
  for (const { destination } of settles) changed.add(destination);
  for (const [index, { destination }] of creates.entries()) {
    if (permits[index] !== undefined) changed.add(destination);
  }
  for (const { lane } of claims) changed.add(lane.destination);
  const rows = new Map<DestinationRuntime, DestinationRow>();
  for (const destination of changed) {
    const row = destination.changedRow();
    if (row !== null) rows.set(destination, row);
  }
  return rows;
}

const NO_WAKE_UPS: readonly LaneDue[] = [];

/** The lanes of partitions of other nodes in which these items make a task wait that is due by then. */
function wakeUpsOf(
  { creates, settles, cancels }: CommitItems,
  permits: readonly (Permit | undefined)[],
  partitions: OwnPartitions,
  before: number,
): readonly LaneDue[] {
  if (partitions.isSingle) return NO_WAKE_UPS;
  const found = new Map<string, LaneDue>();
  const add = (due: LaneDue) => {
    if (partitions.has(due.partition) || due.dueAt > before) return;
    const key = `${due.partition}\n${due.lane}\n${due.tenantId}\n${due.destination}`;
    if (due.dueAt < (found.get(key)?.dueAt ?? Number.POSITIVE_INFINITY)) found.set(key, due);
  };
  const addFirst = ({ tenantId, taskId, destination, scheduledAt: dueAt }: NewTask) =>
    add({ tenantId, destination, lane: "first", partition: partitions.of(taskId), dueAt });
  for (const [index, { create }] of creates.entries()) {
    if (permits[index] === undefined) addFirst(create.task);
  }
  for (const { settle, destination } of settles) {
    for (const task of followUpsOf(settle.onEnd)) addFirst(task);
    if (settle.status !== "PENDING") continue;
    const { tenantId, taskId, lane, nextAttemptAt: dueAt } = settle;
    add({ tenantId, destination: destination.name, lane, partition: partitions.of(taskId), dueAt });
  }
  for (const { request } of cancels) for (const task of followUpsOf(request.onEnd)) addFirst(task);
  return found.size === 0 ? NO_WAKE_UPS : [...found.values()];
}

/** Only those of one status are created, but a wake-up without a task is harmless. */
function followUpsOf(onEnd: OnEnd | undefined): readonly NewTask[] {
  return onEnd === undefined ? [] : Object.values(onEnd).flat();
}

// Gather commit: takes the items of the next commit from the queue, together with the claims that the
// scheduler plans.

/** A transaction takes at most this many items. It may always claim `MIN_CLAIMS` tasks. */
const MAX_ITEMS = 256;
const MIN_CLAIMS = 64;

interface GatherParts extends CommitBatchParts {
  readonly store: Store;
  readonly node: NodeState;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
}

/**
 * Takes at most `max` items. `expiresAt`: of the commit, on the store's clock; null in an exclusive store.
 * Undefined: there is nothing to commit.
 */
export function gatherCommit(
  parts: GatherParts,
  context: CommitContext,
  expiresAt: number | null,
  max: number,
  mayClaimSuspect: () => boolean,
): PendingCommit | undefined {
  const { node, scheduler, queue, store } = parts;
  const { now } = context;
  const items = queue.take(Math.min(max, MAX_ITEMS));
  const { creates, settles, cancels, retryNows } = items;
  const count = creates.length + settles.length + cancels.length + retryNows.length;
  const mayClaim = node.isActive();
  const permits = creates.map((item) => (mayClaim ? permitFor(parts, item, now) : undefined));
  const limit = Math.max(MIN_CLAIMS, MAX_ITEMS - count);
  const claims = mayClaim ? scheduler.planClaims(now, limit, mayClaimSuspect) : [];
  const author = { now, expiresAt, nodeId: node.nodeId };
  const changed = queue.takeChanged();
  const commit = buildCommit(author, items, permits, claims, changed, parts);
  if (commit === undefined || store.exclusive) return commit;
  const rows = writeRowsFirst(context, commit);
  return isEmptyBatch(rows.batch) ? undefined : rows;
}

/** A task that is due at once may be inserted already claimed, unless older tasks wait. */
function permitFor(
  { node, scheduler }: GatherParts,
  { create, destination }: CreateItem,
  now: number,
): Permit | undefined {
  if (create.task.scheduledAt > now || node.isLoading) return undefined;
  return scheduler.takeStart(destination, create.task, now);
}

// Commit results: applies the result of a commit to destinations, lanes and permits, starts the
// claims, and reports to everyone who waits.

export interface CommitContext {
  readonly scheduler: Scheduler;
  readonly runner: ClaimRunner;
  readonly reports: DocumentReports;
  readonly events: EngineEvents;
  readonly now: number;
}

/** The commit succeeded with this result. */
export function applyResult(
  context: CommitContext,
  commit: PendingCommit,
  result: CommitResult,
): void {
  stopArrivals(commit.claims);
  applyWrites(context, commit, result);
  const { now } = context;
  reportEach(commit.settles, result.settles, now);
  for (const [index, item] of commit.creates.entries()) {
    applyCreate(context, item, commit.permits[index], result.creates[index] as CreateResult);
  }
  if (commit.cancels.length > 0) reportEach(commit.cancels, result.cancels, now);
  if (commit.retryNows.length > 0) reportEach(commit.retryNows, result.retryNows, now);
  applyClaims(context, commit, result.claims);
}

/** Applies the rows that were written, or those of other nodes that were written before. */
export function applyWrites(
  context: Omit<CommitContext, "runner">,
  { written, batch }: Pick<PendingCommit, "written" | "batch">,
  result: Pick<CommitResult, "destinations">,
): void {
  for (const [index, { destination, wasOpen }] of written.entries()) {
    const stored = result.destinations[index] ?? null;
    const row = batch.destinations[index]?.row;
    if (stored !== null) adopt(context, destination, stored);
    else if (row !== undefined) {
      recordWrite(destination, row);
      reportBreaker(context, row, wasOpen);
    }
  }
}

/** The claims of a commit beside this one may have brought this row already, or a newer one. */
function recordWrite(destination: DestinationRuntime, row: DestinationRow): void {
  if (destination.row.version < row.version) destination.recordWrite(row);
}

/**
 * The node whose write wins reports the change, so that a fleet reports it once. `wasOpen`: of the row
 * that it replaced, because the store writes a row only over the version before it.
 */
function reportBreaker(
  { events, now }: Pick<CommitContext, "events" | "now">,
  row: DestinationRow,
  wasOpen: boolean,
): void {
  const isOpenNow = isOpen(row);
  if (wasOpen === isOpenNow) return;
  const { tenantId, name } = row;
  const type = isOpenNow ? "breaker.opened" : "breaker.closed";
  events.emit(now, { type, tenantId, destination: name });
}

function applyClaims(
  context: CommitContext,
  { claims }: PendingCommit,
  results: CommitResult["claims"],
): void {
  for (const [index, claim] of claims.entries()) {
    const result = results[index];
    if (result === undefined) continue;
    const origins = assignSlots(context.scheduler.slots, claim, result, context.now);
    context.scheduler.recordClaimed(claim, result);
    const { destination } = claim.lane;
    if (result.row !== null) adopt(context, destination, result.row);
    // Taken before one of the tasks ends, and in this order: the last one may be a trial without a token.
    const used = result.tasks.map(() => destination.admission.takeFrom(claim.permits));
    for (const [at, task] of result.tasks.entries()) {
      const hold = context.scheduler.holdOf(claim.lane, task.nextAttemptAt);
      context.runner.start(task, destination, used[at] as Permit, origins[at], hold, context.now);
    }
    returnPermits(context, claim);
  }
}

function applyCreate(
  context: CommitContext,
  item: CreateItem,
  permit: Permit | undefined,
  result: CreateResult,
): void {
  const { destination, create } = item;
  const started = result.kind === "created" ? result.started : null;
  if (result.kind === "created" && started === null) {
    if (result.row !== null) adopt(context, destination, result.row);
    const { taskId, scheduledAt } = create.task;
    const lane = destination.lanes.first;
    lane.origin ??= originOf(create.task.targetUrl);
    context.scheduler.expectTask(lane, taskId, scheduledAt);
  }
  item.done(result, context.now);
  if (permit === undefined) return;
  if (started === null) returnStart(context, item, permit);
  else {
    const origin = originOf(started.targetUrl);
    context.runner.start(started, destination, permit, origin, undefined, context.now);
  }
}

/** The commit failed, and its effect is unknown. The caller repeats the settles. */
export function applyFailure(context: CommitContext, commit: PendingCommit, error: unknown): void {
  for (const [index, item] of commit.creates.entries()) {
    const permit = commit.permits[index];
    if (permit !== undefined) returnStart(context, item, permit);
    item.failed(error);
  }
  const { cancels, retryNows } = commit;
  failItems({ creates: [], cancels, retryNows }, error);
  for (const claim of commit.claims) returnClaim(context, claim);
}

/**
 * The commit without claims from destinations whose rows it writes: those are claimed from in the next
 * commit.
 */
function writeRowsFirst(context: CommitContext, commit: PendingCommit): PendingCommit {
  if (commit.written.length === 0) return commit;
  const { commit: rows, claims, starts } = rowsFirst(commit);
  for (const claim of claims) returnClaim(context, claim);
  for (const { item, permit } of starts) returnStart(context, item, permit);
  return rows;
}

/** A planned claim is not made. */
function returnClaim(context: CommitContext, claim: PlannedClaim): void {
  returnPermits(context, claim);
  context.scheduler.recordUnclaimed(claim);
}

function adopt(
  { scheduler, reports, now }: Pick<CommitContext, "scheduler" | "reports" | "now">,
  destination: DestinationRuntime,
  row: DestinationRow,
): void {
  destination.adopt(row, now);
  reports.record(destination.documentName, destination.reading);
  scheduler.unblock(destination, now);
}

/** A new task that was to start at once does not start. */
function returnStart(
  context: CommitContext,
  { create, destination }: CreateItem,
  permit: Permit,
): void {
  const { tenantId, targetUrl } = create.task;
  context.scheduler.slots.release(tenantId, originOf(targetUrl));
  destination.returnPermit(permit, context.now);
  context.scheduler.unblock(destination, context.now);
}

/** The permits of a claim that no task needs. */
function returnPermits({ scheduler, now }: CommitContext, { lane, permits }: PlannedClaim): void {
  if (permits.size === 0) return;
  lane.destination.returnPermits(permits, now);
  scheduler.unblock(lane.destination, now);
}

function reportEach<Result>(
  items: readonly { readonly done: (result: Result, now: number) => void }[],
  results: readonly Result[],
  now: number,
): void {
  for (const [index, item] of items.entries()) item.done(results[index] as Result, now);
}

// Claim runner: the interface through which the commit loop passes committed claims on. The runner
// in `run/` implements it, so the commit loop does not depend on `run/`.

export interface ClaimRunner {
  /** The number of attempts whose request was sent. */
  running(): number;
  /** This node holds the claim of a suspect, so it may not claim another one. */
  hasSuspect(): boolean;
  /**
   * Starts a committed claim. `origin`: whose slot was taken; undefined: it has none, and the claim is
   * returned. `hold`: what held the task after it was due, if anything.
   */
  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
    now: number,
  ): void;
  /** The store refuses every settle of one claim. It stays with this process, and a stop does not wait for it. */
  giveUp(): void;
}

// Refused items: what happens to an item that the store refuses because of its content. A caller that
// waits gets the error. A settle is repeated with less content, because its claim must end. Nothing is
// repeated forever.

/** A lane whose claim the store refuses is not claimed again for this long. */
const REFUSED_CLAIM_MS = 10_000;

/**
 * A commit of which the store refuses every item is repeated this often. Then the items are the cause:
 * several of them may be bad, with no good one among them.
 */
const MAX_REPEATS = 2;

const REFUSED = "the store refused the log of this attempt";

interface RefusedItemsParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly queue: CommitQueue;
  readonly health: StoreHealth;
  readonly context: () => CommitContext;
  /** No result may be applied any more. */
  readonly isClosed: () => boolean;
}

/** What remains of a commit: these parts failed with this error. */
interface Remainder {
  readonly parts: readonly PendingCommit[];
  readonly error: unknown;
}

export class RefusedItems {
  readonly #parts: RefusedItemsParts;
  /** Commits in a row of which the store refused every item. */
  #repeats = 0;

  constructor(parts: RefusedItemsParts) {
    this.#parts = parts;
  }

  /** Finds the items of a refused commit that cause it, and commits the others. */
  async recover(commit: PendingCommit): Promise<Remainder> {
    const { store, context } = this.#parts;
    const parts: PendingCommit[] = [];
    let failure: unknown;
    const fail = (part: PendingCommit, error: unknown) => {
      failure = error;
      parts.push(part);
    };
    let isFound = false;
    const [rest, claims] = splitClaims(commit);
    const handlers: IsolationHandlers = {
      succeeded: (part, result) => {
        this.#repeats = 0;
        this.#succeed(part, result, fail);
      },
      refused: (item, error) => {
        isFound = true;
        this.#repeats = 0;
        this.#refuse(item, error);
        // Claims need the row of a destination, so it is written again after a pause.
        if (item.written.length > 0) fail(item, error);
      },
      failed: fail,
    };
    const write = (batch: Batch) => store.commit(batch);
    const isCertain = this.#repeats >= MAX_REPEATS;
    this.#repeats++;
    await isolate(rest, write, handlers, isCertain);
    if (isFound || parts.length > 0) applyFailure(context(), claims, failure);
    else await isolate(claims, write, handlers, isCertain);
    return { parts, error: failure };
  }

  #succeed(
    part: PendingCommit,
    result: CommitResult,
    fail: (part: PendingCommit, error: unknown) => void,
  ): void {
    // The commit may have happened, but nobody may rely on it.
    if (this.#parts.isClosed()) fail(part, undefined);
    else applyResult(this.#parts.context(), part, result);
  }

  /** The store refuses this single item. */
  #refuse(item: PendingCommit, error: unknown): void {
    const { clock, queue, health, context, isClosed } = this.#parts;
    const { creates, settles, cancels, retryNows, claims } = item.batch;
    const [task = creates[0]?.task] = [...settles, ...cancels, ...retryNows];
    health.recordRefusal(error, task ?? claims[0]);
    if (isClosed()) {
      failItems(item, error);
      return;
    }
    for (const settle of item.settles) {
      const simpler = simplerSettle(settle);
      if (simpler === undefined) context().runner.giveUp();
      else queue.restore([simpler], []);
    }
    const apply = () => {
      applyFailure(context(), item, error);
      queue.request();
    };
    // A claim fails again while the task that causes it is first in its lane.
    if (item.claims.length > 0) clock.alarm(REFUSED_CLAIM_MS, apply, true);
    else apply();
  }
}

/**
 * The settle to try next: without the texts and bytes of its attempt, then also without follow-up
 * tasks. Undefined: the store refused that too. The claim then stays with this process; the next
 * process settles it as abandoned.
 */
function simplerSettle(item: SettleItem): SettleItem | undefined {
  const { settle, destination, done, refusals = 0 } = item;
  if (refusals >= 2) return undefined;
  const attempt = settle.attempt && bareLog(settle.attempt);
  const bare: Settle = { ...settle, attempt };
  if (refusals === 0) return { settle: bare, destination, done, refusals: 1 };
  const { onEnd: _, lastError: __, ...rest } = bare;
  return { settle: rest, destination, done, refusals: 2 };
}

/** Only numbers that are in range, and texts that this program wrote. */
function bareLog(attempt: AttemptLog): AttemptLog {
  return {
    attemptNumber: attempt.attemptNumber,
    startedAt: wholeOr(attempt.startedAt, 0),
    durationMs: wholeOr(attempt.durationMs, 0),
    phases: null,
    outcome: attempt.outcome,
    responseStatus: wholeOr(attempt.responseStatus, null),
    errorClass: null,
    errorMessage: REFUSED,
    responseHeaders: null,
    responseBody: null,
    nextDelayMs: wholeOr(attempt.nextDelayMs, null),
    delaySource: attempt.delaySource,
    waits: attempt.waits,
  };
}

function wholeOr<Default>(value: number | null, otherwise: Default): number | Default {
  return value !== null && Number.isSafeInteger(value) ? value : otherwise;
}

// Isolation: finds the items of a commit that the store refuses because of their content, and commits
// all others. It runs only after a commit was refused: the commit is divided into halves, and these
// again, until each refused part is a single item. One bad item among 256 costs about 16 commits.

interface IsolationHandlers {
  /** These items are committed. */
  readonly succeeded: (part: PendingCommit, result: CommitResult) => void;
  /** The store refuses this one item, but not the others. */
  readonly refused: (item: PendingCommit, error: unknown) => void;
  /** The effect of these items is unknown, or the store refuses every item. */
  readonly failed: (part: PendingCommit, error: unknown) => void;
}

/**
 * Resolves when every item was reported to one of the handlers. Never rejects. `isCertain`: items are
 * the cause even if the store refuses every one of them.
 */
async function isolate(
  commit: PendingCommit,
  write: (batch: Batch) => Promise<CommitResult>,
  handlers: IsolationHandlers,
  isCertain = false,
): Promise<void> {
  const refused: Refusal[] = [];
  // The later items come last, so that the items are committed in the order of the batch.
  const parts = halvesOf(commit).reverse();
  let committed = 0;
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    const { result, error } = await attempt(part, write);
    if (result !== undefined) {
      committed++;
      handlers.succeeded(part, result);
    } else if (!(error instanceof StoreRefusedError)) {
      for (const one of [part, ...parts.splice(0)]) handlers.failed(one, error);
    } else if (sizeOf(part.batch) > 1) parts.push(...halvesOf(part).reverse());
    else refused.push({ item: part, error });
  }
  // If the store refuses everything, an item is hardly the cause.
  const isCause = isCertain || committed > 0 || refused.length === 1;
  const report = isCause ? handlers.refused : handlers.failed;
  for (const { item, error } of refused) report(item, error);
}

interface Refusal {
  readonly item: PendingCommit;
  readonly error: unknown;
}

async function attempt(
  { batch }: PendingCommit,
  write: (batch: Batch) => Promise<CommitResult>,
): Promise<{ readonly result?: CommitResult; readonly error?: unknown }> {
  try {
    return { result: await write(batch) };
  } catch (error) {
    return { error };
  }
}

/**
 * The commit without claims, and its claims alone. A claim belongs to the row that is written with it,
 * above all to the row of a probe, so the two are not committed apart.
 */
function splitClaims(commit: PendingCommit): readonly [PendingCommit, PendingCommit] {
  const { batch, claims } = commit;
  const creates = batch.creates.map((create) => ({ ...create, claimVersion: null }));
  const rest = { ...commit, claims: [], batch: { ...batch, creates, claims: [] } };
  const empty = sliceOf(commit, 0, 0);
  return [rest, { ...empty, claims, batch: { ...empty.batch, claims: batch.claims } }];
}

const LISTS = [
  "destinations",
  "creates",
  "settles",
  "cancels",
  "retryNows",
  "claims",
  "documents",
] as const;

function sizeOf(batch: Batch): number {
  return LISTS.reduce((sum, name) => sum + batch[name].length, 0);
}

/** The first and the second half of the items, in the order in which a store carries them out. */
function halvesOf(commit: PendingCommit): PendingCommit[] {
  const size = sizeOf(commit.batch);
  const middle = Math.ceil(size / 2);
  const halves = [sliceOf(commit, 0, middle), sliceOf(commit, middle, size)];
  return halves.filter(({ batch }) => sizeOf(batch) > 0);
}

/** The items from `start` to `end`, counted over all lists. */
function sliceOf(commit: PendingCommit, start: number, end: number): PendingCommit {
  const { batch } = commit;
  let before = 0;
  const cuts = LISTS.map((name) => {
    const from = Math.max(0, start - before);
    const to = Math.max(from, Math.min(batch[name].length, end - before));
    before += batch[name].length;
    return [name, { from, to }] as const;
  });
  const cut = Object.fromEntries(cuts) as Record<(typeof LISTS)[number], Cut>;
  return {
    creates: part(commit.creates, cut.creates),
    permits: part(commit.permits, cut.creates),
    settles: part(commit.settles, cut.settles),
    cancels: part(commit.cancels, cut.cancels),
    retryNows: part(commit.retryNows, cut.retryNows),
    claims: part(commit.claims, cut.claims),
    written: part(commit.written, cut.destinations),
    batch: {
      now: batch.now,
      expiresAt: batch.expiresAt,
      nodeId: batch.nodeId,
      destinations: part(batch.destinations, cut.destinations),
      creates: part(batch.creates, cut.creates),
      settles: part(batch.settles, cut.settles),
      cancels: part(batch.cancels, cut.cancels),
      retryNows: part(batch.retryNows, cut.retryNows),
      claims: part(batch.claims, cut.claims),
      // With every part: a wake-up that is sent twice, or before its task is stored, is harmless.
      wakeUps: batch.wakeUps,
      documents: part(batch.documents, cut.documents),
    },
  };
}

interface Cut {
  readonly from: number;
  readonly to: number;
}

function part<T>(list: readonly T[], { from, to }: Cut): readonly T[] {
  return list.slice(from, to);
}
