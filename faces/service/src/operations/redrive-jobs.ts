/**
 * Redrive jobs: the redrives of a service, kept in its store. Callers start, follow, pause, resume
 * and cancel them; the next process continues those that were interrupted. In a shared store, a
 * node runs the redrives that it started, and another node takes over when the lease has expired.
 */
import { type Clock, messageOf, RedriveError } from "@redrive/core";
import type { DocumentName } from "../engine/events.ts";
import type { DocumentTable, StoredDocument } from "../model/document-table.ts";
import { serviceError } from "../model/errors.ts";
import { assertBounds, REDRIVE_BOUNDS } from "../model/redrive-bounds.ts";
import type { Reading } from "../model/stored-documents.ts";
import {
  type DeadFilter,
  documentOf,
  isOver,
  membershipOf,
  REDRIVE_KIND,
  type RedriveJob,
  type RedriveOrder,
  RUNNING_KIND,
  readStoredJob,
  type StoredJob,
} from "./redrive-job.ts";
import { type Counts, membersOf, RedriveRun, type RedriveSource } from "./redrive-run.ts";

interface RedriveJobsParts {
  readonly clock: Clock;
  readonly documents: DocumentTable;
  readonly source: RedriveSource;
  readonly nodeId: string;
  /** No other process can use the store, so a job that does not run here runs nowhere. */
  readonly exclusive: boolean;
  /** Called for every job that is read. Default: nobody listens. */
  readonly report?: (name: DocumentName, reading: Reading<unknown>) => void;
}

/** Stops waiting for a step that takes too long. */
type Limit = <T>(step: Promise<T>) => Promise<T>;

/** Ended redrives of a tenant that are kept. */
const MAX_ENDED = 100;
/** How often progress is written; progress lost in a crash is counted again. */
const SAVE_MS = 1000;
const LEASE_MS = 15_000;
const ADOPTION_INTERVAL_MS = 5000;
/** Documents per page. A job with a thousand task ids has 40 KB. */
const PAGE = 25;
/** The longest time that a start may take between its mark and its job. */
const START_MS = 3_600_000;

export class RedriveJobs {
  readonly #parts: RedriveJobsParts;
  readonly #running = new Map<string, RunningRedrive>();
  #cancelAdoption: () => void = () => {};
  #isStopping = false;

  constructor(parts: RedriveJobsParts) {
    this.#parts = parts;
  }

  /** Continues the jobs of an earlier process, and looks for more from time to time. */
  async open(): Promise<void> {
    await this.#adoptJobs();
    this.#scheduleAdoption();
  }

  /**
   * Freezes and counts the set, and starts the redrive unless it is a dry run. `limit` wraps every
   * call to the store.
   */
  async start(order: RedriveOrder, limit: Limit = (step) => step): Promise<RedriveJob> {
    const { source, documents } = this.#parts;
    const { tenantId, dryRun = false } = order;
    const { ratePerSecond = REDRIVE_BOUNDS.ratePerSecond.default } = order;
    const { canary = REDRIVE_BOUNDS.canary.default } = order;
    assertBounds({ ...order, ratePerSecond, canary });
    const taskIds = order.taskIds === undefined ? null : [...new Set(order.taskIds)];
    const createdAt = source.now();
    const set = {
      redriveId: source.newId(),
      tenantId,
      filter: frozen(order.filter, createdAt),
      taskIds,
      targets: order.targets ?? null,
    };
    const job: RedriveJob = {
      ...set,
      status: dryRun ? "DONE" : "RUNNING",
      ratePerSecond,
      canary,
      dryRun,
      total: taskIds?.length ?? (await this.#count(set, limit)),
      redriven: 0,
      skipped: 0,
      skips: [],
      createdAt,
      finishedAt: dryRun ? createdAt : null,
      error: null,
      waitsFor: null,
    };
    if (dryRun) return job;
    const stored = this.#owned({ job, version: 1, runBy: null, runUntil: 0 });
    await limit(this.#mark(tenantId, job.redriveId));
    await limit(documents.put(documentOf(stored)));
    this.#run(stored);
    await limit(this.#removeOldest(tenantId));
    return job;
  }

  async get(redriveId: string, tenantId: string): Promise<RedriveJob | undefined> {
    const stored = await this.#stored(redriveId, tenantId);
    return stored && this.#latest(stored.job);
  }

  /** Newest first. */
  async list(tenantId: string): Promise<readonly RedriveJob[]> {
    const jobs: RedriveJob[] = [];
    for await (const document of this.#documents(REDRIVE_KIND, tenantId)) {
      const stored = this.#read(document);
      if (stored !== undefined) jobs.push(this.#latest(stored.job));
    }
    return jobs.reverse();
  }

  /** In pages, so that a tenant with many redrives does not block the event loop. */
  async *#documents(kind: string, tenantId?: string): AsyncGenerator<StoredDocument> {
    const { documents } = this.#parts;
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const of = tenantId === undefined ? {} : { tenantId };
      const page = await documents.list(kind, { ...of, limit: PAGE, cursor });
      yield* page.documents;
      cursor = page.cursor;
    }
  }

  /** Redriven tasks stay redriven. An ended redrive does not change. */
  cancel(redriveId: string, tenantId: string): Promise<RedriveJob | undefined> {
    return this.#change(redriveId, tenantId, (job) =>
      isOver(job) ? job : { ...job, ...this.#ended("CANCELLED") },
    );
  }

  pause(redriveId: string, tenantId: string): Promise<RedriveJob | undefined> {
    return this.#change(redriveId, tenantId, (job) => {
      if (isOver(job)) throw conflict(job, "paused");
      return { ...job, status: "PAUSED" };
    });
  }

  /**
   * A redrive that paused automatically continues without a canary: the caller has seen the reason.
   * A failed one is tried again. `targets` is the target list of the requesting key, if any;
   * resuming a redrive with another list is `FORBIDDEN`.
   */
  async resume(
    redriveId: string,
    tenantId: string,
    targets?: string,
  ): Promise<RedriveJob | undefined> {
    if ((await this.#stored(redriveId, tenantId)) === undefined) return undefined;
    await this.#mark(tenantId, redriveId);
    const job = await this.#change(redriveId, tenantId, (found) => {
      if (targets !== undefined && found.targets !== targets) throw otherTargets(found);
      if (isOver(found) && found.status !== "FAILED") throw conflict(found, "resumed");
      const canary = found.error === null ? found.canary : 0;
      return { ...found, status: "RUNNING", error: null, canary, finishedAt: null };
    });
    await this.#adoptJobs();
    return job;
  }

  /** Stops running jobs here; the next process continues them. Resolves when none runs. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#cancelAdoption();
    await Promise.all([...this.#running.values()].map((running) => running.abandon()));
  }

  #scheduleAdoption(): void {
    if (this.#isStopping) return;
    const scheduleNext = () => this.#scheduleAdoption();
    this.#cancelAdoption = this.#parts.clock.alarm(
      ADOPTION_INTERVAL_MS,
      () => void this.#adoptJobs().then(scheduleNext, scheduleNext),
      true,
    );
  }

  /** Looks only at running jobs. If two nodes want one, the first to write gets it. */
  async #adoptJobs(): Promise<void> {
    for await (const mark of this.#documents(RUNNING_KIND)) {
      if (this.#isStopping) return;
      if (!this.#running.has(mark.id)) await this.#adopt(mark);
    }
  }

  async #adopt(mark: StoredDocument): Promise<void> {
    const { documents, exclusive, source } = this.#parts;
    const document = await documents.get(REDRIVE_KIND, mark.tenantId, mark.id);
    const stored = document === null ? null : this.#read(document);
    // A job that this version cannot read keeps its mark: a later version may read it.
    if (stored === undefined) return;
    if (stored?.job.status !== "RUNNING") return this.#unmark(mark, stored !== null);
    const isFree = exclusive || stored.runBy === null || stored.runUntil <= source.now();
    if (!isFree || this.#isStopping || this.#running.has(mark.id)) return;
    const mine = this.#owned({ ...stored, version: stored.version + 1 });
    if (await documents.put(documentOf(mine))) this.#run(mine);
  }

  /** Marks a job before it runs. False, without a change, if it is already marked. */
  #mark(tenantId: string, id: string): Promise<boolean> {
    const { documents, source } = this.#parts;
    const text = String(source.now());
    return documents.put({ kind: RUNNING_KIND, tenantId, id, version: 1, text });
  }

  /** The job does not run. A job that is being started has a mark but is not stored yet. */
  async #unmark({ tenantId, id, text }: StoredDocument, isStored: boolean): Promise<void> {
    const { documents, source } = this.#parts;
    if (!isStored && source.now() - Number(text) < START_MS) return;
    await documents.remove(RUNNING_KIND, tenantId, id);
    // It may have been resumed meanwhile, when the mark still existed.
    const stored = await this.#stored(id, tenantId);
    if (stored?.job.status === "RUNNING") await this.#mark(tenantId, id);
  }

  #owned(stored: StoredJob): StoredJob {
    const { nodeId, source } = this.#parts;
    return { ...stored, runBy: nodeId, runUntil: source.now() + LEASE_MS };
  }

  #run(stored: StoredJob): void {
    const running = new RunningRedrive(stored);
    this.#running.set(stored.job.redriveId, running);
    running.ended = this.#execute(running).finally(() =>
      this.#running.delete(stored.job.redriveId),
    );
  }

  async #execute(running: RunningRedrive): Promise<void> {
    const { clock, source } = this.#parts;
    const run = new RedriveRun(clock, source, running.stored.job, {
      isRunning: () => running.isActive(),
      progress: (counts) => this.#progress(running, counts),
      signal: running.signal,
    });
    try {
      const paused = await run.run();
      const { taskIds } = running.stored.job;
      const end = paused === null ? this.#ended("DONE", taskIds) : { status: "PAUSED" as const };
      await this.#save(running, { ...end, error: paused });
    } catch (error) {
      if (!running.isActive() || isStopped(error)) return;
      const text = messageOf(error);
      const failed = { status: "FAILED", finishedAt: source.now(), error: text } as const;
      // If even this write fails, the job is adopted again at the next look.
      await this.#save(running, failed).catch(() => {});
    }
  }

  /** The task ids are no longer needed; an empty list says that there were some. */
  #ended(status: "DONE" | "CANCELLED", taskIds: RedriveJob["taskIds"] = null) {
    const ids = status === "DONE" && taskIds !== null ? { taskIds: [] } : {};
    return { status, finishedAt: this.#parts.source.now(), ...ids };
  }

  #progress(running: RunningRedrive, counts: Counts): void {
    const { stored } = running;
    running.stored = { ...stored, job: { ...stored.job, ...counts } };
    const nowMs = this.#parts.clock.monotonicMs();
    if (nowMs - running.savedMs < SAVE_MS) return;
    running.savedMs = nowMs;
    // The next save retries a failed one; the dead letters hold the truth anyway.
    this.#save(running, {}).catch(() => {});
  }

  /**
   * One write at a time. A rejected write means that another caller changed the job, so this run
   * ends.
   */
  #save(running: RunningRedrive, change: Partial<RedriveJob>): Promise<void> {
    const save = async () => {
      if (!running.isActive()) return;
      const { job, version } = running.stored;
      const next = this.#owned({
        ...running.stored,
        job: { ...job, ...change },
        version: version + 1,
      });
      const isWritten = await this.#parts.documents.put(documentOf(next));
      if (isWritten) running.stored = { ...next, job: { ...running.stored.job, ...change } };
      else void running.abandon();
    };
    running.saving = running.saving.then(save, save);
    return running.saving;
  }

  async #change(
    redriveId: string,
    tenantId: string,
    change: (job: RedriveJob) => RedriveJob,
  ): Promise<RedriveJob | undefined> {
    for (;;) {
      const stored = await this.#stored(redriveId, tenantId);
      if (stored === undefined) return undefined;
      const before = this.#latest(stored.job);
      const job = change(before);
      if (job === before || job.status === stored.job.status) return before;
      const next = { job, version: stored.version + 1, runBy: null, runUntil: 0 };
      if (!(await this.#parts.documents.put(documentOf(next)))) continue;
      await this.#running.get(redriveId)?.abandon();
      return job;
    }
  }

  async #stored(redriveId: string, tenantId: string): Promise<StoredJob | undefined> {
    const document = await this.#parts.documents.get(REDRIVE_KIND, tenantId, redriveId);
    return document === null ? undefined : this.#read(document);
  }

  /** Undefined: this version cannot read the job. It stays in the store, and does not run. */
  #read(document: StoredDocument): StoredJob | undefined {
    const reading = readStoredJob(document);
    const { tenantId, id } = document;
    this.#parts.report?.({ kind: "redrive", tenantId, name: id }, reading);
    return reading.kind === "read" ? reading.value : undefined;
  }

  /** Counts of a job that runs here are newer than the stored ones. */
  #latest(job: RedriveJob): RedriveJob {
    const running = this.#running.get(job.redriveId);
    if (running === undefined || job.status !== "RUNNING") return job;
    const { redriven, skipped, skips, waitsFor } = running.stored.job;
    return { ...job, redriven, skipped, skips, waitsFor };
  }

  async #count(
    set: Pick<RedriveJob, "tenantId" | "redriveId" | "filter" | "taskIds">,
    limit: Limit,
  ) {
    const { source } = this.#parts;
    const limited: Pick<RedriveSource, "get" | "list"> = {
      get: (...ref) => limit(source.get(...ref)),
      list: (...query) => limit(source.list(...query)),
    };
    let total = 0;
    for await (const member of membersOf(limited, set)) {
      if (membershipOf(set, member) === "open") total++;
    }
    return total;
  }

  async #removeOldest(tenantId: string): Promise<void> {
    const ended = (await this.list(tenantId)).filter(isOver);
    for (const { redriveId } of ended.slice(MAX_ENDED)) {
      await this.#parts.documents.remove(REDRIVE_KIND, tenantId, redriveId);
    }
  }
}

function frozen(filter: DeadFilter, createdAt: number): DeadFilter {
  return { ...filter, finishedTo: Math.min(filter.finishedTo ?? createdAt + 1, createdAt + 1) };
}

function isStopped(error: unknown): boolean {
  return error instanceof RedriveError && error.code === "SERVICE_STOPPED";
}

function otherTargets({ redriveId }: RedriveJob): Error {
  const text = `redrive ${redriveId} was started with other targets than this API key has`;
  return serviceError("FORBIDDEN", text);
}

function conflict({ redriveId, status }: RedriveJob, verb: string): Error {
  const text = `redrive ${redriveId} is ${status} and can no longer be ${verb}`;
  return serviceError("TASK_STATE_CONFLICT", text);
}

/** A redrive that this process runs. */
class RunningRedrive {
  readonly #abort = new AbortController();
  stored: StoredJob;
  savedMs = Number.NEGATIVE_INFINITY;
  saving: Promise<void> = Promise.resolve();
  ended: Promise<void> = Promise.resolve();

  constructor(stored: StoredJob) {
    this.stored = stored;
  }

  /** Ends its sleeps. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  isActive(): boolean {
    return !this.signal.aborted;
  }

  /** Ends the run; resolves once it has stopped. */
  abandon(): Promise<void> {
    this.#abort.abort(new Error("the redrive no longer runs here"));
    return this.ended;
  }
}
