/**
 * Turn: what one turn of the event loop has to tell the store, in one transaction. Callers put
 * items in; at the end of the turn they are committed together with the claims that the scheduler
 * picks, and everybody is told. One commit at a time: while it runs, the next one gathers.
 *
 * A commit that fails leaves everything unknown. Then settles are tried again (the epoch keeps them
 * from happening twice), whoever waits is told, and permits go back.
 */
import type { Cancel, Clock, Permit } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { CancelResult, CommitResult, RetryNowResult } from "../../model/batch.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { GuardSaver } from "../destination/guard-saver.ts";
import type { EngineTime } from "../node/engine-time.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import {
  type CreateItem,
  loadOf,
  type PendingCommit,
  type RefItem,
  type SettleItem,
  type TurnHost,
} from "./commit-batch.ts";
import { tellCommitted, tellFailed } from "./commit-results.ts";

/** One transaction takes at most this many items, and claims what is left of it, or a few. */
const MAX_ITEMS = 256;
const MIN_ROOM = 64;

/** From this many attempts on the wire a node is busy, and waits at most so many turns. */
const BUSY_RUNNING = 16;
const MAX_LINGERED = 4;

/** After a failed commit: 50 ms, doubling to a second. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1000;

/** What a turn works with. */
export interface TurnParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  readonly store: Store;
  readonly scheduler: Scheduler;
  readonly notes: GuardSaver;
  readonly host: TurnHost;
}

export class CommitLoop {
  readonly #clock: Clock;
  readonly #time: EngineTime;
  readonly #store: Store;
  readonly #scheduler: Scheduler;
  readonly #host: TurnHost;
  readonly #notes: GuardSaver;

  #creates: CreateItem[] = [];
  #settles: SettleItem[] = [];
  #cancels: RefItem<CancelResult>[] = [];
  #wakes: RefItem<RetryNowResult>[] = [];
  #changed = new Set<DestinationRuntime>();
  #isRequested = false;
  #isBusy = false;
  #isClosed = false;
  #closedBy: unknown;
  #failures = 0;
  #lingered = 0;
  #endedBefore = 0;
  #cancelAlarm: Cancel | undefined;
  #cancelPause: Cancel | undefined;
  #alarmAt = Number.POSITIVE_INFINITY;

  constructor({ clock, time, store, scheduler, notes, host }: TurnParts) {
    this.#clock = clock;
    this.#time = time;
    this.#store = store;
    this.#scheduler = scheduler;
    this.#notes = notes;
    this.#host = host;
  }

  addCreate(item: CreateItem): void {
    this.#creates.push(item);
    this.request();
  }

  addSettle(item: SettleItem): void {
    this.#settles.push(item);
    this.request();
  }

  addCancel(item: RefItem<CancelResult>): void {
    this.#cancels.push(item);
    this.request();
  }

  addWake(item: RefItem<RetryNowResult>): void {
    this.#wakes.push(item);
    this.request();
  }

  /** The destination's row may have to be written. */
  addChange(destination: DestinationRuntime): void {
    this.#changed.add(destination);
    this.request();
  }

  /** Asks for a commit at the end of this turn of the event loop. */
  request(): void {
    if (this.#isRequested || this.#isBusy || this.#isClosed) return;
    this.#isRequested = true;
    this.#clock.endOfTurn(this.#flush);
  }

  /**
   * Runs `work` while no commit does, so that what it reads of this node's claims is what this node
   * knows. False, without running it, if a commit is under way.
   */
  betweenCommits(work: () => Promise<void>): boolean {
    if (this.#isBusy || this.#isClosed) return false;
    this.#isBusy = true;
    const resume = () => {
      this.#isBusy = false;
      this.request();
    };
    work().then(resume, resume);
    return true;
  }

  /** True when everything that was put in has been committed. */
  isIdle(): boolean {
    return !this.#isBusy && !this.#hasItems();
  }

  /** Nothing is committed any more; whoever waits is told. */
  close(error: unknown): void {
    this.#isClosed = true;
    this.#closedBy = error;
    this.#cancelAlarm?.();
    this.#cancelPause?.();
    for (const item of [...this.#creates, ...this.#cancels, ...this.#wakes]) item.failed(error);
    this.#creates = [];
    this.#cancels = [];
    this.#wakes = [];
    this.#settles = [];
  }

  #hasItems(): boolean {
    const waiting = this.#creates.length + this.#settles.length + this.#cancels.length;
    return waiting + this.#wakes.length + this.#changed.size > 0;
  }

  readonly #flush = (): void => {
    if (this.#mayLinger()) {
      this.#clock.endOfTurn(this.#flush);
      return;
    }
    this.#isRequested = false;
    if (this.#isBusy || this.#isClosed) return;
    const load = this.#gather(this.#time.now());
    if (load === undefined) {
      this.#arm();
      return;
    }
    this.#isBusy = true;
    this.#store.commit(load.batch).then(
      (result) => this.#succeed(load, result),
      (error: unknown) => this.#fail(load, error),
    );
  };

  /**
   * A busy node waits a few turns for company, because an fsync costs as much for one row as for a
   * hundred: as long as attempts keep ending, more are about to. An idle one waits for nobody, and
   * neither does one whose attempts all hang.
   */
  #mayLinger(): boolean {
    const ended = this.#settles.length;
    const running = this.#host.running();
    const isBusy = running >= BUSY_RUNNING && ended > this.#endedBefore && ended < running;
    const lingers = isBusy && this.#lingered < MAX_LINGERED;
    this.#lingered = lingers ? this.#lingered + 1 : 0;
    this.#endedBefore = lingers ? ended : 0;
    return lingers;
  }

  #gather(now: number): PendingCommit | undefined {
    const settles = this.#settles.splice(0, MAX_ITEMS);
    const cancels = this.#cancels.splice(0, MAX_ITEMS - settles.length);
    const wakes = this.#wakes.splice(0, MAX_ITEMS - settles.length - cancels.length);
    const ended = settles.length + cancels.length + wakes.length;
    const creates = this.#creates.splice(0, Math.max(1, MAX_ITEMS - ended));
    const mayClaim = this.#host.mayClaim(now);
    const permits = creates.map((item) => (mayClaim ? this.#permitFor(item, now) : undefined));
    const started = permits.filter((permit) => permit !== undefined).length;
    const room = Math.max(MIN_ROOM, MAX_ITEMS - ended - creates.length);
    const running = this.#host.underWay() + started;
    const picks = mayClaim ? this.#scheduler.planClaims(now, room, running) : [];
    const changed = this.#changed;
    this.#changed = new Set();
    const author = { now, nodeId: this.#host.nodeId };
    const taken = { creates, settles, cancels, wakes };
    return loadOf(author, taken, permits, picks, changed, this.#notes);
  }

  /** A task that is due at once may be inserted already claimed, unless older ones are waiting. */
  #permitFor({ create, destination }: CreateItem, now: number): Permit | undefined {
    const { scheduledAt } = create.task;
    if (scheduledAt > now) return undefined;
    if (!this.#scheduler.mayStartNow(destination, scheduledAt, now)) return undefined;
    return destination.takePermit(false, now);
  }

  #told() {
    return { scheduler: this.#scheduler, host: this.#host, now: this.#time.now() };
  }

  #succeed(load: PendingCommit, result: CommitResult): void {
    this.#isBusy = false;
    if (this.#isClosed) {
      this.#tellClosed(load);
      return;
    }
    if (this.#failures > 0) this.#host.committed();
    this.#failures = 0;
    tellCommitted(this.#told(), load, result);
    if (this.#hasItems()) this.request();
    else this.#arm();
  }

  /** The commit was under way when this closed: it may have happened, and nobody may rely on it. */
  #tellClosed({ creates, cancels, wakes }: PendingCommit): void {
    for (const item of [...creates, ...cancels, ...wakes]) item.failed(this.#closedBy);
  }

  #fail(load: PendingCommit, error: unknown): void {
    if (this.#isClosed) {
      this.#tellClosed(load);
      return;
    }
    this.#settles = [...load.settles, ...this.#settles];
    for (const destination of load.written) this.#changed.add(destination);
    this.#notes.lost();
    tellFailed(this.#told(), load, error);
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    this.#failures++;
    this.#cancelPause = this.#clock.alarm(pauseMs, () => {
      this.#isBusy = false;
      this.request();
    });
    this.#host.failed(error);
  }

  /** One alarm, for the earliest lane or the next notes. */
  #arm(): void {
    this.#host.idle();
    const at = this.#nextAt();
    if (at === this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    this.#alarmAt = at;
    if (!Number.isFinite(at)) return;
    this.#cancelAlarm = this.#clock.alarm(this.#time.msUntil(at), () => {
      this.#alarmAt = Number.POSITIVE_INFINITY;
      this.request();
    });
  }

  /** While a task waits to run alone, it is the end of what runs that goes on. */
  #nextAt(): number {
    if (this.#isClosed || !this.#host.mayClaim(this.#time.now())) return Number.POSITIVE_INFINITY;
    if (this.#scheduler.waitsForAlone) return Number.POSITIVE_INFINITY;
    return Math.min(this.#scheduler.nextAt() ?? Number.POSITIVE_INFINITY, this.#notes.nextAt());
  }
}
