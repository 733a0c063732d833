/**
 * Read queue: shares the reader among tenants. Tenants take turns, one statement each, so a tenant
 * waits for at most one statement of every other tenant, however many they have queued. A page that
 * needs several statements queues again for each.
 */
import { RedriveError } from "@redrive/core";
import { ReadAbortedError } from "../../model/store-errors.ts";
import type { Reader, Rows } from "./reader.ts";
import type { Cell } from "./rows.ts";

/** Pages of one tenant that may be in progress. Each holds at most one place in the queue. */
export const MAX_PAGES = 100;

/** Runs one statement when the tenant has its turn. */
export type Read = (sql: string, params: readonly Cell[]) => Promise<Rows>;

interface Job {
  readonly sql: string;
  readonly params: readonly Cell[];
  readonly signal: AbortSignal | undefined;
  readonly resolve: (rows: Rows) => void;
  readonly reject: (error: unknown) => void;
}

export class ReadQueue {
  readonly #reader: Reader;
  /** The jobs of tenants that wait. The first tenant in the map has the next turn. */
  readonly #waiting = new Map<string, Job[]>();
  readonly #pages = new Map<string, number>();
  /** The tenant whose statement runs, and its other jobs. */
  #current: { readonly tenantId: string; readonly jobs: Job[] } | undefined;
  #isClosed = false;

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  read(
    tenantId: string,
    sql: string,
    params: readonly Cell[],
    signal?: AbortSignal,
  ): Promise<Rows> {
    return new Promise((resolve, reject) => {
      this.#add(tenantId, { sql, params, signal, resolve, reject });
      this.#next();
    });
  }

  #add(tenantId: string, job: Job): void {
    const current = this.#current;
    const own = current?.tenantId === tenantId ? current.jobs : this.#waiting.get(tenantId);
    if (own === undefined) this.#waiting.set(tenantId, [job]);
    else own.push(job);
  }

  /**
   * Runs the statements of a page. Rejects with `TOO_MANY_REQUESTS` if the tenant has too many pages
   * in progress: more would only wait for each other.
   */
  async page<T>(
    tenantId: string,
    signal: AbortSignal | undefined,
    work: (read: Read) => Promise<T>,
  ): Promise<T> {
    const count = this.#pages.get(tenantId) ?? 0;
    if (count >= MAX_PAGES) throw tooManyPages();
    this.#pages.set(tenantId, count + 1);
    try {
      return await work((sql, params) => this.read(tenantId, sql, params, signal));
    } finally {
      const left = (this.#pages.get(tenantId) ?? 1) - 1;
      if (left > 0) this.#pages.set(tenantId, left);
      else this.#pages.delete(tenantId);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#reader.close();
  }

  #next(): void {
    if (this.#current !== undefined) return;
    const job = this.#take();
    if (job === undefined) return;
    this.#run(job)
      .then(job.resolve, job.reject)
      .finally(() => {
        this.#endTurn();
        this.#next();
      });
  }

  async #run({ sql, params }: Job): Promise<Rows> {
    if (this.#isClosed) throw new Error("the store is closed");
    return this.#reader.all(sql, params);
  }

  /** The first job of the next tenant. */
  #take(): Job | undefined {
    for (const [tenantId, jobs] of this.#waiting) {
      this.#waiting.delete(tenantId);
      const job = takeFirst(jobs);
      if (job === undefined) continue;
      this.#current = { tenantId, jobs };
      return job;
    }
    return undefined;
  }

  /** The tenant goes to the end of the line, behind those that came during its turn. */
  #endTurn(): void {
    const current = this.#current;
    this.#current = undefined;
    if (current !== undefined && current.jobs.length > 0) {
      this.#waiting.set(current.tenantId, current.jobs);
    }
  }
}

/** Jobs whose caller has gone are dropped and cost no turn. */
function takeFirst(jobs: Job[]): Job | undefined {
  for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
    if (job.signal?.aborted !== true) return job;
    job.reject(new ReadAbortedError(job.signal));
  }
  return undefined;
}

function tooManyPages(): Error {
  const text = `${MAX_PAGES} lists of this tenant are in progress; wait until one of them ends`;
  return new RedriveError("TOO_MANY_REQUESTS", text);
}
