/**
 * Redrive run: runs one redrive from its current state, which it reads from the dead letters. It
 * processes them in a fixed order, counts what was done before, creates new tasks from the rest at the
 * configured rate, and pauses if the canary fails or a circuit opens. While a destination cannot take a
 * task, its dead letters come last.
 */
import { type Clock, RedriveError } from "@redrive/core";
import { type DestinationRow, isOpen } from "../model/destination-row.ts";
import type { RetryTask } from "../model/task.ts";
import type { Page, TaskFilter, TaskPage } from "../model/task-query.ts";
import type { RedriveScope } from "./dead-letter-redriver.ts";
import {
  membershipOf,
  REDRIVEN,
  type RedriveJob,
  type Skip,
  type Skips,
  skipOf,
  skippedIn,
  withSkip,
} from "./redrive-job.ts";

/** What a redrive reads and changes. */
export interface RedriveSource {
  now(): number;
  newId(): string;
  get(taskId: string, tenantId: string): Promise<RetryTask | null>;
  list(filter: TaskFilter, page: Page, tenantId: string): Promise<TaskPage>;
  openCircuits(tenantId: string): Promise<readonly DestinationRow[]>;
  /** Null: it has no row. */
  destinationRow(name: string, tenantId: string): Promise<DestinationRow | null>;
  /**
   * Creates a new task with the redrive's mark in its id, unless the source was already redriven.
   * `skipOf` says which errors are a reason to skip it.
   */
  redriveTask(taskId: string, tenantId: string, redrive: RedriveScope): Promise<unknown>;
}

/** How the run reports, and what it checks before each step. */
interface RunControl {
  /** False: the job no longer belongs to this run. */
  isRunning(): boolean;
  progress(counts: Counts): void;
  /** Ends the sleeps when the service stops. */
  readonly signal: AbortSignal;
}

export interface Counts {
  readonly redriven: number;
  readonly skipped: number;
  readonly skips: readonly Skips[];
  /** What the run waits for now, as a clause; null: it does not wait. */
  readonly waitsFor: string | null;
}

/** Why it paused; null: it is done. */
type RunEnd = string | null;

const PAGE = 250;
/** Dead letters that come last. If there are more, the redrive waits for the next one's destination. */
const MAX_POSTPONED = 1000;
/** A run works in steps of this length, so that a high rate needs no alarm per task. */
const STEP_MS = 100;
const MAX_SLEEP_MS = 1000;
/** The share of the canary that may fail. */
const MAX_FAILED_SHARE = 0.2;
/** How often a call to an unavailable store is tried. */
const MAX_TRIES = 60;
const PASSING = ["STORE_UNAVAILABLE", "STORE_FULL"];

/** The dead letters of a redrive, each once, in a fixed order. */
export async function* membersOf(
  source: Pick<RedriveSource, "get" | "list">,
  job: Pick<RedriveJob, "tenantId" | "redriveId" | "filter" | "taskIds">,
): AsyncGenerator<RetryTask> {
  const { tenantId, taskIds } = job;
  for (const taskId of taskIds ?? []) {
    const task = await source.get(taskId, tenantId);
    if (task !== null) yield task;
  }
  let cursor: string | null | undefined = taskIds === null ? undefined : null;
  while (cursor !== null) {
    const page: TaskPage = await source.list(
      { ...job.filter, status: "EXHAUSTED" },
      { limit: PAGE, ...(cursor !== undefined && { cursor }) },
      tenantId,
    );
    for (const task of page.tasks) if (membershipOf(job, task) !== undefined) yield task;
    cursor = page.cursor;
  }
}

export class RedriveRun {
  readonly #clock: Clock;
  readonly #source: RedriveSource;
  readonly #job: RedriveJob;
  readonly #control: RunControl;
  /** When the next task may be created. */
  #dueMs: number;
  readonly #circuits: CircuitWatch;
  readonly #room: DestinationRoom;
  readonly #postponed: string[] = [];
  /** The new tasks of the canary. */
  readonly #canaryTasks: string[] = [];
  #redriven = 0;
  #skips: readonly Skips[] = [];
  #waitsFor: string | null = null;

  constructor(clock: Clock, source: RedriveSource, job: RedriveJob, control: RunControl) {
    this.#clock = clock;
    this.#source = source;
    this.#job = job;
    this.#control = control;
    this.#dueMs = clock.monotonicMs();
    const { tenantId, ratePerSecond } = job;
    this.#circuits = new CircuitWatch(clock, () => source.openCircuits(tenantId));
    const rows = {
      now: () => source.now(),
      row: (name: string) => this.#retryStore(() => source.destinationRow(name, tenantId)),
      task: (taskId: string) => this.#retryStore(() => source.get(taskId, tenantId)),
    };
    this.#room = new DestinationRoom(clock, rows, ratePerSecond);
  }

  /** Resolves when it is done, has paused, or was stopped. */
  async run(): Promise<RunEnd> {
    for await (const member of membersOf(this.#members(), this.#job)) {
      const end = await this.#next(member, this.#postponed.length < MAX_POSTPONED);
      if (end !== undefined) return end;
    }
    for (const taskId of this.#postponed) {
      const member = await this.#source.get(taskId, this.#job.tenantId);
      const end = member === null ? undefined : await this.#next(member, false);
      if (end !== undefined) return end;
    }
    return null;
  }

  /** Undefined: the next one follows. */
  async #next(member: RetryTask, mayPostpone: boolean): Promise<RunEnd | undefined> {
    for (;;) {
      if (!this.#control.isRunning()) return null;
      const opened = await this.#circuits.opened();
      if (opened !== undefined) return opened;
      const held = await this.#heldBy(member);
      if (held === undefined) break;
      if (mayPostpone) {
        this.#postponed.push(member.taskId);
        return undefined;
      }
      this.#reportWait(held);
      await this.#sleep(STEP_MS);
    }
    this.#reportWait(null);
    const { destination } = member;
    if (this.#room.isClosed(destination)) this.#circuits.watch(destination);
    return this.#redrive(member);
  }

  /** What a new task of this dead letter would wait for now. */
  async #heldBy(member: RetryTask): Promise<string | undefined> {
    const isOpen = membershipOf(this.#job, member) === "open";
    return isOpen ? this.#room.heldBy(member.destination) : undefined;
  }

  /** Waits while the tenant has too many lists in progress. */
  #members(): Pick<RedriveSource, "get" | "list"> {
    const source = this.#source;
    return {
      get: (...ref) => source.get(...ref),
      list: (...query) => this.#retryStore(() => source.list(...query), ["TOO_MANY_REQUESTS"]),
    };
  }

  /** Returns the reason to pause after this task, if any. */
  async #redrive(member: RetryTask): Promise<string | undefined> {
    const isOpen = membershipOf(this.#job, member) === "open";
    const newId = isOpen ? await this.#createTask(member) : this.#count(member);
    if (newId === null || this.#canaryTasks.length >= this.#job.canary) return undefined;
    this.#canaryTasks.push(newId);
    return this.#canaryTasks.length < this.#job.canary
      ? undefined
      : this.#checkCanary(this.#canaryTasks);
  }

  /**
   * Counts a task that was already redriven. Returns the new task's id if this redrive created it.
   */
  #count(member: RetryTask): string | null {
    const isOurs = membershipOf(this.#job, member) === "redriven";
    if (isOurs) this.#redriven++;
    else this.#skips = withSkip(this.#skips, REDRIVEN, member.taskId);
    this.#reportProgress();
    return isOurs ? member.redrivenTo : null;
  }

  #reportProgress(): void {
    const skips = this.#skips;
    const counts = { redriven: this.#redriven, skipped: skippedIn(skips), skips };
    this.#control.progress({ ...counts, waitsFor: this.#waitsFor });
  }

  #reportWait(waitsFor: string | null): void {
    if (this.#waitsFor === waitsFor) return;
    this.#waitsFor = waitsFor;
    this.#reportProgress();
  }

  async #createTask(member: RetryTask): Promise<string | null> {
    await this.#pace();
    if (!this.#control.isRunning()) return null;
    const { taskId } = member;
    const { tenantId } = this.#job;
    try {
      const made = await this.#retryStore(async () => {
        await this.#source.redriveTask(taskId, tenantId, this.#job);
        return this.#source.get(taskId, tenantId);
      });
      if (made?.redrivenTo) this.#room.recordCreated(made.destination, made.redrivenTo);
      // It may have been discarded in the meantime: then it is neither redriven nor skipped.
      return made === null || made.redrivenTo === null ? null : this.#count(made);
    } catch (error) {
      return this.#skip(taskId, skipOf(error), error);
    }
  }

  /** It stays a dead letter, and the next one takes its slot. */
  #skip(taskId: string, skip: Skip | undefined, error: unknown): null {
    if (skip === undefined) throw error;
    this.#dueMs -= 1000 / this.#job.ratePerSecond;
    this.#skips = withSkip(this.#skips, skip, taskId);
    this.#reportProgress();
    return null;
  }

  /**
   * The first one starts at once. Time lost to a canary or the store is not caught up in a burst.
   */
  async #pace(): Promise<void> {
    const nowMs = () => this.#clock.monotonicMs();
    while (this.#dueMs > nowMs() && this.#control.isRunning()) {
      if (this.#dueMs - nowMs() > MAX_SLEEP_MS) this.#reportWait("its rate");
      await this.#sleep(Math.min(MAX_SLEEP_MS, Math.max(STEP_MS, this.#dueMs - nowMs())));
    }
    this.#reportWait(null);
    this.#dueMs = Math.max(this.#dueMs, nowMs() - STEP_MS) + 1000 / this.#job.ratePerSecond;
  }

  /** A commit with an unknown outcome is safe to repeat: a source is redriven only once. */
  async #retryStore<T>(work: () => Promise<T>, passing: readonly string[] = PASSING): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        const isPassing = error instanceof RedriveError && passing.includes(error.code);
        if (!isPassing || tries >= MAX_TRIES || !this.#control.isRunning()) throw error;
        this.#reportWait(`the store: ${(error as RedriveError).message}`);
        await this.#sleep(MAX_SLEEP_MS);
      }
    }
  }

  /** Waits until the first attempt of each has ended, or too many have failed. */
  async #checkCanary(taskIds: readonly string[]): Promise<string | undefined> {
    while (this.#control.isRunning()) {
      const verdicts = await Promise.all(taskIds.map((taskId) => this.#verdict(taskId)));
      const failed = verdicts.filter((verdict) => verdict === "failed").length;
      if (failed > taskIds.length * MAX_FAILED_SHARE) {
        return `${failed} of the first ${taskIds.length} failed: resume it to continue with the rest`;
      }
      const ended = verdicts.filter((verdict) => verdict !== "open").length;
      if (ended === taskIds.length) break;
      this.#reportWait(
        `the first attempts of its canary: ${ended} of ${taskIds.length} have ended`,
      );
      await this.#sleep(STEP_MS);
    }
    this.#reportWait(null);
    return undefined;
  }

  /** By its first attempt: waiting for its last one could take a day. */
  async #verdict(taskId: string): Promise<"good" | "failed" | "open"> {
    const task = await this.#source.get(taskId, this.#job.tenantId);
    if (task === null || task.status === "SUCCEEDED") return "good";
    if (task.status === "EXHAUSTED" || task.status === "CANCELLED") return "failed";
    return task.status === "PENDING" && task.attemptNumber > 0 ? "failed" : "open";
  }

  #sleep(ms: number): Promise<void> {
    return this.#clock.sleep(ms, this.#control.signal);
  }
}

// Circuit watch: finds out whether a circuit opens while a redrive sends to its destination, and
// whether a destination can take a new task now. The time of a task runs while it waits, so a
// redrive creates it when it may run.

/** Circuits are read at most this often. */
const CHECK_MS = 100;

class CircuitWatch {
  readonly #clock: Clock;
  readonly #read: () => Promise<readonly DestinationRow[]>;
  readonly #destinations = new Set<string>();
  /** The circuits that were not closed at the last check. */
  #known: ReadonlyMap<string, DestinationRow> | undefined;
  #checkedMs = Number.NEGATIVE_INFINITY;

  /** `read` returns the rows whose circuit is not closed. */
  constructor(clock: Clock, read: () => Promise<readonly DestinationRow[]>) {
    this.#clock = clock;
    this.#read = read;
  }

  /** The redrive sends to this destination, whose circuit is closed. */
  watch(destination: string): void {
    this.#destinations.add(destination);
  }

  /** The reason to pause if the circuit of a watched destination has opened. */
  async opened(): Promise<string | undefined> {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#checkedMs < CHECK_MS) return undefined;
    this.#checkedMs = nowMs;
    const rows = await this.#read();
    const before = this.#known;
    this.#known = new Map(rows.map((row) => [row.name, row]));
    if (before === undefined) return undefined;
    const opened = rows.find(
      (row) => this.#destinations.has(row.name) && hasOpened(before.get(row.name), row),
    );
    return (
      opened &&
      `the circuit of ${opened.name} opened: resume the redrive once the destination has recovered`
    );
  }
}

/** A circuit that was already open holds tasks by itself. */
function hasOpened(before: DestinationRow | undefined, after: DestinationRow): boolean {
  if (after.breakerState === "CLOSED") return false;
  return (
    (before?.breakerState ?? "CLOSED") === "CLOSED" || after.openCount > (before?.openCount ?? 0)
  );
}

/** What `DestinationRoom` reads. */
interface RoomSource {
  now(): number;
  /** Null: it has no row, so nothing of it is closed. */
  row(destination: string): Promise<DestinationRow | null>;
  task(taskId: string): Promise<RetryTask | null>;
}

/** A breaker that nobody has probed for this long has no task that waits. */
const UNPROBED_MS = 1000;

/** Fewer tasks that have not started are not waited for. */
const MIN_UNSTARTED = 10;

class DestinationRoom {
  readonly #clock: Clock;
  readonly #source: RoomSource;
  readonly #maxUnstarted: number;
  readonly #rows = new Map<
    string,
    { readonly row: DestinationRow | null; readonly readMs: number }
  >();
  /** When it created a task last. */
  #createdMs = Number.NEGATIVE_INFINITY;
  /** The new tasks that had not started when they were read last, by destination, the oldest first. */
  readonly #unstarted = new Map<string, string[]>();

  constructor(clock: Clock, source: RoomSource, ratePerSecond: number) {
    this.#clock = clock;
    this.#source = source;
    this.#maxUnstarted = Math.max(MIN_UNSTARTED, Math.ceil(ratePerSecond));
  }

  recordCreated(destination: string, taskId: string): void {
    this.#createdMs = this.#clock.monotonicMs();
    const tasks = this.#unstarted.get(destination) ?? [];
    tasks.push(taskId);
    this.#unstarted.set(destination, tasks);
  }

  /** Is its circuit closed, as far as was read last? */
  isClosed(destination: string): boolean {
    const row = this.#rows.get(destination)?.row ?? null;
    return row === null || !isOpen(row);
  }

  /** What a new task would wait for now, as a clause; undefined: nothing. */
  async heldBy(destination: string): Promise<string | undefined> {
    const row = await this.#row(destination);
    if (row !== null && row.pausedAt !== null) return `${destination}, which is paused`;
    const isHalfOpen = row !== null && isOpen(row);
    const isUnprobed =
      isHalfOpen &&
      row.openUntil + UNPROBED_MS <= this.#source.now() &&
      this.#createdMs + UNPROBED_MS <= this.#clock.monotonicMs();
    if (isHalfOpen && !isUnprobed) return `the open circuit of ${destination}`;
    const unstarted = await this.#countUnstarted(destination, isHalfOpen ? 1 : this.#maxUnstarted);
    if (isHalfOpen && unstarted > 0) return `the open circuit of ${destination}`;
    if (unstarted < this.#maxUnstarted) return undefined;
    return `${destination}: ${unstarted} of its tasks have not started`;
  }

  /** Reads the oldest ones until fewer than `wanted` may be left, or one has not started. */
  async #countUnstarted(destination: string, wanted: number): Promise<number> {
    const tasks = this.#unstarted.get(destination) ?? [];
    while (tasks.length >= wanted) {
      const task = await this.#source.task(tasks[0] ?? "");
      if (task?.status === "PENDING" && task.attemptNumber === 0) break;
      tasks.shift();
    }
    return tasks.length;
  }

  async #row(destination: string): Promise<DestinationRow | null> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#rows.get(destination);
    if (known !== undefined && nowMs - known.readMs < CHECK_MS) return known.row;
    const row = await this.#source.row(destination);
    if (this.#rows.size >= MAX_ROWS) this.#rows.clear();
    this.#rows.set(destination, { row, readMs: nowMs });
    return row;
  }
}

/** Beyond this number of destinations, rows are read again. */
const MAX_ROWS = 1000;
