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
import type { Clock } from "@redrive/core";
import type { CommitResult } from "../../model/batch.ts";
import type { Store } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import type { EngineTime } from "../../time/engine-time.ts";
import type { GuardSaver } from "../destination/guard-saver.ts";
import type { DocumentReports } from "../events/document-reports.ts";
import type { EngineEvents } from "../events/engine-events.ts";
import type { NodeState } from "../node/node-state.ts";
import type { OwnPartitions } from "../node/own-partitions.ts";
import type { StoreHealth } from "../node/store-health.ts";
import type { Schedule, Scheduler } from "../schedule/scheduler.ts";
import type { ClaimRunner } from "./claim-runner.ts";
import { CommitAlarm } from "./commit-alarm.ts";
import type { PendingCommit } from "./commit-batch.ts";
import { CommitDelay } from "./commit-delay.ts";
import { CommitOverlap, type OverlapParts } from "./commit-overlap.ts";
import { CommitPause } from "./commit-pause.ts";
import { failItems } from "./commit-queue.ts";
import { applyFailure, applyResult, type CommitContext } from "./commit-results.ts";
import { gatherCommit } from "./gather-commit.ts";
import { RefusedItems } from "./refused-items.ts";
import type { RowHomes } from "./row-homes.ts";
import { RunningCommits } from "./running-commits.ts";
import { isSuspectClaim, type SuspectTurn } from "./suspect-turn.ts";
import { WorkBetween } from "./work-between.ts";

export interface CommitLoopParts extends OverlapParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly node: NodeState;
  readonly health: StoreHealth;
  readonly reports: DocumentReports;
  readonly events: EngineEvents;
  readonly scheduler: Scheduler;
  readonly schedule: Schedule;
  /** Undefined: this loop writes the rows of all destinations. */
  readonly homes: RowHomes | undefined;
  readonly suspectTurn: SuspectTurn;
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
    this.#parts.suspectTurn.begin(this, commit.claims);
    this.#running.start(commit, this.#parts.store.commit(commit.batch));
    return true;
  }

  #handleFailure(commit: PendingCommit, error: unknown): Promise<void> | undefined {
    if (error instanceof StoreRefusedError && !this.#isClosed) return this.#recover(commit);
    this.#endTurn(commit);
    this.#fail([commit], error);
    return undefined;
  }

  /**
   * At most one suspect is claimed in the name of this node, so that a crash accuses only one. The
   * store may also hold one whose claim this node does not know.
   */
  #mayClaimSuspect(): boolean {
    const { runner, health, suspectTurn } = this.#parts;
    this.#mayHaveUnknownSuspect &&= health.mayHaveUnknownClaims();
    if (!suspectTurn.isFree(this) || this.#running.hasSuspect()) return false;
    return !runner.hasSuspect() && !this.#mayHaveUnknownSuspect;
  }

  #context(): CommitContext {
    const { scheduler, schedule, runner, reports, events, time, homes } = this.#parts;
    const isShared = homes !== undefined;
    return { scheduler, schedule, isShared, runner, reports, events, now: time.now() };
  }

  #succeed(commit: PendingCommit, result: CommitResult): void {
    this.#endTurn(commit);
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

  /** Another loop may claim a suspect now. */
  #endTurn({ claims }: PendingCommit): void {
    if (claims.some(isSuspectClaim)) this.#parts.suspectTurn.end(this);
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
      queue.restore(commit.settles, written, commit.hints);
      applyFailure(this.#context(), commit, error);
      this.#mayHaveUnknownSuspect ||= commit.claims.some(isSuspectClaim);
    }
    this.#pause.begin(() => this.#continue());
    health.recordFailure(error);
  }

  /** The store refused the content of the commit: only the items that cause it fail. */
  async #recover(commit: PendingCommit): Promise<void> {
    const { parts, error } = await this.#refusals.recover(commit);
    this.#endTurn(commit);
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
