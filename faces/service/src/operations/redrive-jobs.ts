/**
 * Redrive jobs: dead letters made into new tasks, at a pace. The set is frozen by time: what ended
 * before the job began, and dead letters never change, so that it can be read page by page. A job
 * lives in this process; one that a restart cut short is started again, and skips what was done.
 */
import type { Clock } from "@redrive/core";
import type { Page, TaskFilter, TaskPage } from "../store.ts";

export type DeadFilter = Omit<TaskFilter, "status">;

export interface RedriveOrder {
  readonly tenantId: string;
  readonly filter: DeadFilter;
  /** These and no others; then `filter` is empty. */
  readonly taskIds?: readonly string[];
  /** Default: 10. */
  readonly ratePerSecond?: number;
  /** Only count. */
  readonly dryRun?: boolean;
}

export type RedriveJobStatus = "RUNNING" | "DONE" | "CANCELLED" | "FAILED";

export interface RedriveJob {
  readonly redriveId: string;
  readonly tenantId: string;
  readonly status: RedriveJobStatus;
  readonly filter: DeadFilter;
  readonly ratePerSecond: number;
  readonly dryRun: boolean;
  /** Dead letters in the set that had not been redriven when it was counted. */
  readonly total: number;
  readonly redriven: number;
  /** Had been redriven by somebody else meanwhile. */
  readonly skipped: number;
  readonly createdAt: number;
  readonly finishedAt: number | null;
  readonly error: string | null;
}

/** What a job works on. */
export interface RedriveSource {
  now(): number;
  newId(): string;
  list(filter: TaskFilter, page: Page, tenantId: string): Promise<TaskPage>;
  /** The new task's id; null if it had been redriven before. */
  redriveTask(taskId: string, tenantId: string): Promise<string | null>;
}

const PAGE = 250;
export const DEFAULT_RATE_PER_SECOND = 10;
/** Ended jobs that are remembered. */
const MOST_ENDED = 100;
/** A job works in steps of this, so that a high rate needs no alarm per task. */
const STEP_MS = 100;

export class RedriveJobs {
  readonly #clock: Clock;
  readonly #source: RedriveSource;
  readonly #jobs = new Map<string, RedriveJob>();

  constructor(clock: Clock, source: RedriveSource) {
    this.#clock = clock;
    this.#source = source;
  }

  /** Freezes and counts the set, and begins unless it is a dry run. */
  async start(order: RedriveOrder): Promise<RedriveJob> {
    const { tenantId, filter, ratePerSecond = DEFAULT_RATE_PER_SECOND, dryRun = false } = order;
    const createdAt = this.#source.now();
    const frozen = {
      ...filter,
      finishedTo: Math.min(filter.finishedTo ?? createdAt + 1, createdAt + 1),
    };
    const total = order.taskIds?.length ?? (await this.#count(frozen, tenantId));
    const job: RedriveJob = {
      redriveId: this.#source.newId(),
      tenantId,
      status: dryRun ? "DONE" : "RUNNING",
      filter,
      ratePerSecond,
      dryRun,
      total,
      redriven: 0,
      skipped: 0,
      createdAt,
      finishedAt: dryRun ? createdAt : null,
      error: null,
    };
    this.#keep(job);
    if (!dryRun) void this.#run(job, order.taskIds ?? this.#ids(frozen, tenantId));
    return job;
  }

  get(redriveId: string, tenantId: string): RedriveJob | undefined {
    const job = this.#jobs.get(redriveId);
    return job?.tenantId === tenantId ? job : undefined;
  }

  /** Newest first. */
  list(tenantId: string): readonly RedriveJob[] {
    return [...this.#jobs.values()].filter((job) => job.tenantId === tenantId).reverse();
  }

  /** What has been redriven stays so. An ended job stays as it ended. */
  cancel(redriveId: string, tenantId: string): RedriveJob | undefined {
    const job = this.get(redriveId, tenantId);
    if (job?.status !== "RUNNING") return job;
    return this.#change(redriveId, { status: "CANCELLED", finishedAt: this.#source.now() });
  }

  /** Ends all that run. */
  stop(): void {
    for (const { redriveId, tenantId } of this.#jobs.values()) this.cancel(redriveId, tenantId);
  }

  async #run(job: RedriveJob, ids: Iterable<string> | AsyncIterable<string>): Promise<void> {
    const { redriveId } = job;
    try {
      await this.#pace(job, ids);
      if (this.#isRunning(redriveId)) this.#end(redriveId, "DONE", null);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (this.#isRunning(redriveId)) this.#end(redriveId, "FAILED", text);
    }
  }

  /** In each step as many as the time since the beginning allows, the first one at once. */
  async #pace(
    { redriveId, tenantId, ratePerSecond }: RedriveJob,
    ids: Iterable<string> | AsyncIterable<string>,
  ): Promise<void> {
    const startMs = this.#clock.monotonicMs();
    let done = 0;
    for await (const taskId of ids) {
      const allowed = () => 1 + ((this.#clock.monotonicMs() - startMs) * ratePerSecond) / 1000;
      while (done >= allowed() && this.#isRunning(redriveId)) {
        const waitMs = ((done + 1 - allowed()) * 1000) / ratePerSecond;
        await this.#clock.sleep(Math.min(1000, Math.max(STEP_MS, waitMs)));
      }
      if (!this.#isRunning(redriveId)) return;
      const isNew = (await this.#source.redriveTask(taskId, tenantId)) !== null;
      done++;
      this.#tally(redriveId, isNew);
    }
  }

  #tally(redriveId: string, isNew: boolean): void {
    const { redriven = 0, skipped = 0 } = this.#jobs.get(redriveId) ?? {};
    this.#change(redriveId, isNew ? { redriven: redriven + 1 } : { skipped: skipped + 1 });
  }

  async #count(filter: DeadFilter, tenantId: string): Promise<number> {
    let total = 0;
    for await (const _ of this.#ids(filter, tenantId)) total++;
    return total;
  }

  async *#ids(filter: DeadFilter, tenantId: string): AsyncGenerator<string> {
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page: TaskPage = await this.#source.list(
        { ...filter, status: "EXHAUSTED" },
        { limit: PAGE, ...(cursor !== undefined && { cursor }) },
        tenantId,
      );
      for (const { taskId, redrivenTo } of page.tasks) if (redrivenTo === null) yield taskId;
      cursor = page.cursor;
    }
  }

  #isRunning(redriveId: string): boolean {
    return this.#jobs.get(redriveId)?.status === "RUNNING";
  }

  #end(redriveId: string, status: RedriveJobStatus, error: string | null): void {
    this.#change(redriveId, { status, error, finishedAt: this.#source.now() });
  }

  #change(redriveId: string, change: Partial<RedriveJob>): RedriveJob | undefined {
    const job = this.#jobs.get(redriveId);
    if (job === undefined) return undefined;
    const changed = { ...job, ...change };
    this.#jobs.set(redriveId, changed);
    return changed;
  }

  #keep(job: RedriveJob): void {
    this.#jobs.set(job.redriveId, job);
    const ended = [...this.#jobs.values()].filter(({ status }) => status !== "RUNNING");
    for (const { redriveId } of ended.slice(0, -MOST_ENDED)) this.#jobs.delete(redriveId);
  }
}
