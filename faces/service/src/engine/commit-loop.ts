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
import type { Cancel, Clock } from "@redrive/core";
import type { CommitResult } from "../model/batch.ts";
import { COMMIT_EXPIRES_MS, type Store } from "../model/store.ts";
import { StoreRefusedError } from "../model/store-errors.ts";
import type { EngineTime } from "../time/engine-time.ts";
import {
  applyFailure,
  applyResult,
  type ClaimRunner,
  type CommitContext,
  gatherCommit,
  type PendingCommit,
} from "./commit-batch.ts";
import { type CommitQueue, failItems } from "./commit-queue.ts";
import type { DocumentReports, EngineEvents } from "./events.ts";
import type { GuardSaver } from "./guard-saver.ts";
import type { NodeState, OwnPartitions } from "./node.ts";
import { RefusedItems } from "./refused-items.ts";
import { isSuspectClaim, type Scheduler } from "./scheduler.ts";
import type { StoreHealth } from "./store-health.ts";

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
    this.#refusals = new RefusedItems({
      context: () => this.#context(),
      isClosed: () => this.#isClosed,
      ...parts,
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
    return !this.#workBetween.isWaiting && this.#overlap.mayOverlap();
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

  /** The last commit failed. */
  get isFailing(): boolean {
    return this.#pause.isFailing;
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
    if (this.#delay.mayDelay(queue.settleCount(), runner.running())) {
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
    const mayClaimSuspect = () => this.#mayClaimSuspect();
    const max = this.#overlap.itemsToTake();
    const commit = gatherCommit(this.#parts, this.#context(), max, mayClaimSuspect);
    if (commit === undefined) return false;
    this.#running.start(commit, this.#parts.store.commit(commit.batch));
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
  #mayClaimSuspect(): boolean {
    const { runner, health } = this.#parts;
    this.#mayHaveUnknownSuspect &&= health.mayHaveUnknownClaims();
    if (this.#running.hasSuspect()) return false;
    return !runner.hasSuspect() && !this.#mayHaveUnknownSuspect;
  }

  #context(): CommitContext {
    const { scheduler, runner, reports, events, time, store } = this.#parts;
    const expiresAt = store.exclusive ? null : time.referenceNow() + COMMIT_EXPIRES_MS;
    return { scheduler, runner, reports, events, now: time.now(), expiresAt };
  }

  #succeed(commit: PendingCommit, result: CommitResult): void {
    if (this.#isClosed) {
      // The commit may have happened, but nobody may rely on it.
      failItems(commit, this.#closedBy);
      return;
    }
    if (this.#pause.isFailing) this.#parts.health.recordRecovery();
    this.#pause.recordSuccess();
    applyResult(this.#context(), commit, result);
    this.#startNext();
    this.#continue();
  }

  #startNext(): void {
    const isReady = this.#overlap.isNextReady() && !this.#workBetween.isWaiting;
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
    const lanesAt = scheduler.nextAt(time.now(), this.#mayClaimSuspect());
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
  #failures = 0;
  #isActive = false;
  #cancel: Cancel | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isActive(): boolean {
    return this.#isActive;
  }

  /** The last commit failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  recordSuccess(): void {
    this.#failures = 0;
  }

  /** Calls `done` after the pause. */
  begin(done: () => void): void {
    this.#isActive = true;
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++);
    this.#cancel?.();
    this.#cancel = this.#clock.alarm(pauseMs, () => {
      this.#isActive = false;
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
  #work: (() => Promise<void>) | undefined;
  #isRunning = false;

  get isWaiting(): boolean {
    return this.#work !== undefined;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Replaces work that has not started. */
  request(work: () => Promise<void>): void {
    if (!this.#isRunning) this.#work = work;
  }

  /** No commit runs: starts the work, if there is any, and calls `done` after it. Returns true if it did. */
  start(done: () => void): boolean {
    const work = this.#work;
    if (work === undefined) return false;
    this.#work = undefined;
    this.#isRunning = true;
    const end = () => {
      this.#isRunning = false;
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

  constructor(handlers: CommitHandlers) {
    this.#handlers = handlers;
  }

  get count(): number {
    return this.#running.length + (this.#isApplying ? 1 : 0);
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
      const applied = this.#running.shift()?.apply?.();
      if (applied !== undefined) this.#waitFor(applied);
    }
  }

  #waitFor(applied: Promise<void>): void {
    this.#isApplying = true;
    const resume = () => {
      this.#isApplying = false;
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
    return isFree && this.#queue.itemCount() >= this.#overlapItems;
  }

  /**
   * May the next commit start as soon as the last one has ended? The server would be idle if it waited
   * for the end of the turn, and for more items.
   */
  isNextReady(): boolean {
    return this.#queue.itemCount() >= this.#nextItems;
  }

  /**
   * How many items the next commit takes. If no commit runs and enough items wait for two, each takes
   * half: the callers of one then add their next items while the server works on the other. If rows
   * of destinations wait, the commit that writes them overlaps with none, so it takes all. Rows that its
   * own items change are not known yet.
   */
  itemsToTake(): number {
    const count = this.#queue.itemCount();
    const isEnough = count >= 2 * this.#overlapItems;
    const isDivided = this.#running.count === 0 && isEnough && !this.#queue.hasChanged();
    return isDivided ? Math.ceil(count / 2) : count;
  }
}
