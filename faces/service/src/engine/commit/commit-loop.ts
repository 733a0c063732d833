/**
 * Commit loop: writes the items of the commit queue to the store. At the end of a turn of the event
 * loop, it commits all waiting items in one transaction, together with the claims that the scheduler
 * plans, and reports the results. Only one commit runs at a time; items that arrive meanwhile wait
 * for the next one.
 *
 * After a failed commit, the effect of every item is unknown. The loop repeats the settles (the claim
 * epoch prevents a double effect), reports the failure to everyone who waits, and returns permits. If
 * the store refused the content of the commit, only the items that cause it fail.
 */
import type { Cancel, Clock } from "@redrive/core";
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
import type { PendingCommit } from "./commit-batch.ts";
import { CommitDelay } from "./commit-delay.ts";
import { type CommitQueue, failItems } from "./commit-queue.ts";
import { applyFailure, applyResult, type CommitContext } from "./commit-results.ts";
import { gatherCommit } from "./gather-commit.ts";
import { RefusedItems } from "./refused-items.ts";
import type { RowHomes } from "./row-homes.ts";
import { isSuspectClaim, type SuspectTurn } from "./suspect-turn.ts";

/** The pause after a failed commit: 50 ms, doubling to one second. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

export interface CommitLoopParts {
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
  readonly queue: CommitQueue;
  readonly partitions: OwnPartitions;
  readonly runner: ClaimRunner;
}

export class CommitLoop {
  readonly #parts: CommitLoopParts;
  readonly #delay = new CommitDelay();
  readonly #refusals: RefusedItems;
  /** Called whenever a flush ends without a commit to make. */
  onIdle: (() => void) | undefined;
  #isRequested = false;
  #isBusy = false;
  #isClosed = false;
  #closedBy: unknown;
  #failures = 0;
  /** A commit that claimed a suspect failed, and its claim may be stored. */
  #mayHaveUnknownSuspect = false;
  #cancelAlarm: Cancel | undefined;
  #cancelPause: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  constructor(parts: CommitLoopParts) {
    this.#parts = parts;
    this.#refusals = new RefusedItems({
      context: () => this.#context(),
      isClosed: () => this.#isClosed,
      ...parts,
    });
    parts.queue.onRequest(() => this.#request());
  }

  /** Requests a commit at the end of this turn of the event loop. */
  #request(): void {
    if (this.#isRequested || this.#isBusy || this.#isClosed) return;
    this.#isRequested = true;
    this.#parts.clock.endOfTurn(this.#flush);
  }

  /**
   * Runs `work` while no commit runs, so that the claims it reads from the store are those that this
   * node knows. Returns false, without running it, if a commit is under way.
   */
  betweenCommits(work: () => Promise<void>): boolean {
    if (this.#isBusy || this.#isClosed) return false;
    this.#isBusy = true;
    const resume = () => {
      this.#isBusy = false;
      this.#request();
    };
    work().then(resume, resume);
    return true;
  }

  /** True when every item has been committed. */
  isIdle(): boolean {
    return !this.#isBusy && this.#parts.queue.isEmpty();
  }

  /** The last commit failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Commits nothing more. Everyone who waits gets the error. */
  close(error: unknown): void {
    this.#isClosed = true;
    this.#closedBy = error;
    this.#cancelAlarm?.();
    this.#cancelPause?.();
    this.#parts.queue.failAll(error);
  }

  readonly #flush = (): void => {
    const { clock, store, queue, runner } = this.#parts;
    if (this.#delay.mayDelay(queue.settleCount(), runner.running())) {
      clock.endOfTurn(this.#flush);
      return;
    }
    this.#isRequested = false;
    if (this.#isBusy || this.#isClosed) return;
    const commit = gatherCommit(this.#parts, this.#context(), () => this.#mayClaimSuspect());
    if (commit === undefined) {
      this.#arm();
      return;
    }
    this.#isBusy = true;
    this.#parts.suspectTurn.begin(this, commit.claims);
    store.commit(commit.batch).then(
      (result) => this.#succeed(commit, result),
      (error: unknown) => {
        if (error instanceof StoreRefusedError && !this.#isClosed) void this.#recover(commit);
        else this.#fail([commit], error);
      },
    );
  };

  /**
   * At most one suspect is claimed in the name of this node, so that a crash accuses only one. The
   * store may also hold one whose claim this node does not know.
   */
  #mayClaimSuspect(): boolean {
    const { runner, health } = this.#parts;
    this.#mayHaveUnknownSuspect &&= health.mayHaveUnknownClaims();
    if (!this.#parts.suspectTurn.isFree(this)) return false;
    return !runner.hasSuspect() && !this.#mayHaveUnknownSuspect;
  }

  #context(): CommitContext {
    const { scheduler, schedule, runner, reports, events, time, homes } = this.#parts;
    const isShared = homes !== undefined;
    return { scheduler, schedule, isShared, runner, reports, events, now: time.now() };
  }

  #succeed(commit: PendingCommit, result: CommitResult): void {
    const { queue, health } = this.#parts;
    this.#isBusy = false;
    this.#parts.suspectTurn.end(this);
    if (this.#isClosed) {
      // The commit may have happened, but nobody may rely on it.
      failItems(commit, this.#closedBy);
      return;
    }
    if (this.#failures > 0) health.recordRecovery();
    this.#failures = 0;
    applyResult(this.#context(), commit, result);
    if (queue.isEmpty()) this.#arm();
    else this.#request();
  }

  /** `commits`: one commit, or the parts of one that was divided. */
  #fail(commits: readonly PendingCommit[], error: unknown): void {
    const { clock, queue, guardSaver, health } = this.#parts;
    this.#parts.suspectTurn.end(this);
    if (this.#isClosed) {
      for (const commit of commits) failItems(commit, this.#closedBy);
      return;
    }
    guardSaver.recordFailure();
    this.#failures++;
    for (const commit of commits) {
      queue.restore(commit.settles, commit.written, commit.hints);
      applyFailure(this.#context(), commit, error);
      this.#mayHaveUnknownSuspect ||= commit.claims.some(isSuspectClaim);
    }
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#failures - 1));
    this.#cancelPause = clock.alarm(pauseMs, () => {
      this.#isBusy = false;
      this.#request();
    });
    health.recordFailure(error);
  }

  /** The store refused the content of the commit: only the items that cause it fail. */
  async #recover(commit: PendingCommit): Promise<void> {
    const { parts, error } = await this.#refusals.recover(commit);
    if (parts.length > 0 || this.#isClosed) {
      this.#fail(parts, error);
      return;
    }
    this.#isBusy = false;
    this.#parts.suspectTurn.end(this);
    this.#request();
  }

  /** One alarm, for the earliest lane or the next guard state to save. */
  #arm(): void {
    const { clock, time } = this.#parts;
    this.onIdle?.();
    const at = this.#nextAt();
    if (at === this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    this.#alarmAt = at;
    if (!Number.isFinite(at)) return;
    this.#cancelAlarm = clock.alarm(time.msUntil(at), () => {
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.#request();
    });
  }

  /** A suspect that waits for another one needs no alarm: each commit of a settle arms again. */
  #nextAt(): number {
    const { time, node, scheduler, guardSaver } = this.#parts;
    if (this.#isClosed || !node.isActive()) return Number.POSITIVE_INFINITY;
    const lanesAt = scheduler.nextAt(time.now(), this.#mayClaimSuspect());
    return Math.min(lanesAt, guardSaver.nextAt());
  }
}
