/**
 * Redrive run: runs one redrive from its current state, which it reads from the dead letters. It
 * processes them in a fixed order, counts what was done before, creates new tasks from the rest at the
 * configured rate, and pauses if the canary fails or a circuit opens.
 */
import { type Clock, RedriveError } from "@redrive/core";
import type { DestinationRow } from "../model/destination-row.ts";
import type { RetryTask } from "../model/task.ts";
import type { Page, TaskFilter, TaskPage } from "../model/task-query.ts";
import { CircuitWatch } from "./circuit-watch.ts";
import type { RedriveScope } from "./dead-letter-redriver.ts";
import { membershipOf, type RedriveJob } from "./redrive-job.ts";
import { REDRIVEN, type Skip, type Skips, skipOf, skippedIn, withSkip } from "./skips.ts";

/** What a redrive reads and changes. */
export interface RedriveSource {
  now(): number;
  newId(): string;
  get(taskId: string, tenantId: string): Promise<RetryTask | null>;
  list(filter: TaskFilter, page: Page, tenantId: string): Promise<TaskPage>;
  openCircuits(tenantId: string): Promise<readonly DestinationRow[]>;
  /**
   * Creates a new task with the redrive's mark in its id, unless the source was already redriven.
   * `skipOf` says which errors are a reason to skip it.
   */
  redriveTask(taskId: string, tenantId: string, redrive: RedriveScope): Promise<unknown>;
}

/** How the run reports, and what it checks before each step. */
export interface RunControl {
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
export type RunEnd = string | null;

const PAGE = 250;
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
    this.#circuits = new CircuitWatch(clock, () => source.openCircuits(job.tenantId));
  }

  /** Resolves when it is done, has paused, or was stopped. */
  async run(): Promise<RunEnd> {
    for await (const member of membersOf(this.#members(), this.#job)) {
      if (!this.#control.isRunning()) return null;
      const why = (await this.#circuits.check(member.destination)) ?? (await this.#redrive(member));
      if (why !== undefined) return why;
    }
    return null;
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
