/**
 * Checkpointer: copies the log into the database file beside the writer, syncs it, and reserves its space.
 */
import { closeSync, fdatasync, fstatSync, openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/**
 * Pages of the log that trigger a checkpoint: 2 MiB. A smaller log copies a page that changes often
 * more times; a larger one writes so much at once that the commits of that time are slow.
 */
export const CHECKPOINT_PAGES = 512;

// Log sync: makes committed transactions durable with an fsync of the write-ahead log. It runs on a
// thread of Node's pool, so the event loop continues meanwhile. The caller reports a result only after
// the sync that follows its commit.

/** SQLite's code for a failed fsync. */
const IOERR_FSYNC = 1034;

export interface LogSync {
  /**
   * Resolves once everything is durable that was committed before the call. Rejects with SQLite's
   * error for a failed fsync; then the content of the disk is unknown.
   */
  sync(): Promise<void>;
  /** Resolves once no sync runs. */
  close(): Promise<void>;
}

/**
 * The log is never replaced while the database is open, only overwritten. SQLite locks other files,
 * so closing this descriptor drops no lock.
 */
export function openLogSync(file: string): LogSync {
  const log = openSync(`${file}-wal`, "r+");
  const running = new Set<Promise<void>>();

  return {
    async sync() {
      const syncing = syncOnThread(log);
      running.add(syncing);
      try {
        await syncing;
      } finally {
        running.delete(syncing);
      }
    },
    async close() {
      await Promise.allSettled(running);
      closeSync(log);
    },
  };
}

function syncOnThread(log: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(log, (error) => (error === null ? resolve() : reject(failedSync(error))));
  });
}

function failedSync(cause: Error): Error {
  return Object.assign(new Error(cause.message, { cause }), { errcode: IOERR_FSYNC });
}

// Log space: reserves space for the write-ahead log when a service opens a file. An fsync of a file that
// has grown must also write the file's new size and block map, which takes about half as long
// again. A log that is as large as it ever gets is only overwritten.

/** A page of the log: a page of the database and its header. */
const LOG_PAGE_BYTES = 4096 + 24;

/** The log grows beyond the threshold while the checkpoint runs. */
export const RESERVED_BYTES = 2 * CHECKPOINT_PAGES * LOG_PAGE_BYTES;

/**
 * Appends zeros, which SQLite ignores: a page of the log counts only with a valid checksum. Best
 * effort: on a full disk the log grows with the commits, as it would without this. No lock is lost,
 * because SQLite locks other files than the log. Call it while nobody writes.
 */
export function reserveLog(file: string): void {
  try {
    const log = openSync(`${file}-wal`, "r+");
    const { size } = fstatSync(log);
    const missing = RESERVED_BYTES - size;
    if (missing > 0) writeSync(log, new Uint8Array(missing), 0, missing, size);
    fdatasync(log, () => closeSync(log));
  } catch {
    // Without the space, commits are slower and nothing else changes.
  }
}

// Checkpointer: copies committed pages from the write-ahead log into the database on a worker
// thread, and syncs the database there, because both would block the main thread for milliseconds.
//
// The log restarts from its beginning only when every page has been copied, and the writer adds
// pages meanwhile. The writer copies those few pages itself, which takes longer than a commit: it
// syncs the log and the database. So the thread copies several times before the log must restart.
// If the writer waited for the thread instead, every commit of that time would be late by as long as
// the operating system takes to run the thread.

/** Pages of the log from which on it restarts: 8 MiB. Until then only the thread copies. */
const RESTART_PAGES = 4 * CHECKPOINT_PAGES;

/** From here on the writer checkpoints by itself: the thread has failed or cannot keep up. */
export const MAX_LOG_PAGES = 16 * CHECKPOINT_PAGES;

/** The writer copies at most about this many pages itself. */
const MAX_REST_PAGES = 64;

/** The thread copies at most this often in a row while more pages than that are left. */
const MAX_COPIES = 4;

const PAGE_BYTES = 4096;

/**
 * Upper bound of the pages that a transaction writes: a fixed number plus some per item.
 * Neighboring items share pages, so the true number may be a tenth; each checkpoint measures it.
 */
const PAGES_EACH = 6;
const PAGES_PER_ITEM = 3;
const MIN_SHARE = 0.05;

/**
 * As a string, because a worker needs a file that Node can run, and ours are compiled elsewhere.
 * SQLite does not sync the database if the writer added pages meanwhile, so the thread does: the
 * writer's sync would otherwise have to write all of its pages.
 */
const WORKER = `
const { fdatasyncSync } = require("node:fs");
const { parentPort, workerData } = require("node:worker_threads");
const { DatabaseSync } = require(workerData.driver);
const database = new DatabaseSync(workerData.file);
database.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
const copy = database.prepare("PRAGMA wal_checkpoint(PASSIVE)");
function sync() {
  try {
    fdatasyncSync(workerData.descriptor);
  } catch (error) {
    throw Object.assign(error, { errcode: ${IOERR_FSYNC} });
  }
}
parentPort.on("message", (message) => {
  if (message === "close") {
    database.close();
    parentPort.close();
    return;
  }
  try {
    const { log, checkpointed } = copy.get();
    sync();
    parentPort.postMessage({ logPages: log, copiedPages: checkpointed });
  } catch (error) {
    parentPort.postMessage({ errcode: error.errcode ?? 0, text: String(error.message) });
  }
});`;

interface Reply {
  readonly logPages?: number;
  readonly copiedPages?: number;
  /** SQLite's error code, if it failed. */
  readonly errcode?: number;
  readonly text?: string;
}

/** How much a transaction wrote. */
export interface BatchSize {
  readonly items: number;
  /** Bytes of bodies. */
  readonly bytes: number;
}

export interface Checkpointer {
  /** Call after a transaction of that size is committed. */
  committed(size: BatchSize): void;
  /** Resolves once no checkpoint runs. Safe to call twice. */
  close(): Promise<void>;
}

interface CheckpointerParts {
  readonly file: string;
  /** An open descriptor of the database. */
  readonly descriptor: number;
  /** Copies the remaining pages on the writing connection. */
  readonly copyRest: () => void;
  /** Called with SQLite's error when a checkpoint fails. */
  readonly failed: (error: Error) => void;
}

/** The thread starts with the first checkpoint and does not keep the process alive. */
export function createCheckpointer(parts: CheckpointerParts): Checkpointer {
  return new ThreadCheckpointer(parts);
}

class ThreadCheckpointer implements Checkpointer {
  readonly #parts: CheckpointerParts;
  #worker: Worker | undefined;
  #isClosed = false;
  #isCopying = false;
  #copies = 0;
  /** The log had this many pages when it was last measured. */
  #knownPages = 0;
  /** Upper bound of the pages written since then; and when the running copy was requested. */
  #maxPages = 0;
  #maxPagesAsked = 0;
  /** The measured share of the upper bound. */
  #share = 1;

  constructor(parts: CheckpointerParts) {
    this.#parts = parts;
  }

  committed({ items, bytes }: BatchSize): void {
    this.#maxPages += PAGES_EACH + PAGES_PER_ITEM * items + bytes / PAGE_BYTES;
    if (this.#isCopying || this.#isClosed) return;
    if (this.#newPages() >= CHECKPOINT_PAGES) this.#copy();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const ending = this.#worker;
    this.#worker = undefined;
    if (ending === undefined) return;
    const gone = new Promise((resolve) => ending.once("exit", resolve));
    ending.ref();
    ending.postMessage("close");
    await gone;
  }

  /** The estimated number of pages written since the log was last measured. */
  #newPages(): number {
    return this.#maxPages * this.#share;
  }

  #copy(): void {
    this.#copies++;
    this.#isCopying = true;
    this.#maxPagesAsked = this.#maxPages;
    this.#worker ??= this.#start();
    this.#worker.postMessage("copy");
  }

  #onReply({ logPages, copiedPages = 0, errcode, text = "" }: Reply): void {
    this.#isCopying = false;
    if (this.#isClosed) return;
    if (errcode !== undefined || logPages === undefined) {
      this.#copies = 0;
      this.#maxPages = 0;
      this.#parts.failed(Object.assign(new Error(text), { errcode }));
      return;
    }
    this.#learn(logPages);
    if (logPages < RESTART_PAGES) {
      this.#copies = 0;
      return;
    }
    const isMuchLeft = this.#newPages() > MAX_REST_PAGES;
    if (isMuchLeft && this.#copies < MAX_COPIES) this.#copy();
    else this.#finish(copiedPages === logPages);
  }

  /** While a reader uses a part of the log, that part is not copied and the log cannot restart. */
  #finish(isCopied: boolean): void {
    this.#copies = 0;
    if (!isCopied) return;
    this.#parts.copyRest();
    this.#knownPages = 0;
    this.#maxPages = 0;
  }

  /** At most halved per measurement: a log that has restarted has grown by more than it shows. */
  #learn(logPages: number): void {
    if (this.#maxPagesAsked > 0) {
      const measured = Math.min(1, (logPages - this.#knownPages) / this.#maxPagesAsked);
      this.#share = Math.max(measured, this.#share / 2, MIN_SHARE);
    }
    this.#maxPages -= this.#maxPagesAsked;
    this.#knownPages = logPages;
  }

  #start(): Worker {
    const driver = createRequire(import.meta.url).resolve("@photostructure/sqlite");
    const { file, descriptor } = this.#parts;
    const started = new Worker(WORKER, { eval: true, workerData: { driver, file, descriptor } });
    started.on("message", (reply: Reply) => this.#onReply(reply));
    started.on("error", () => {});
    started.on("exit", () => this.#onExit());
    started.unref();
    return started;
  }

  /** If the thread has failed, the next checkpoint starts another one. */
  #onExit(): void {
    this.#worker = undefined;
    this.#copies = 0;
    this.#isCopying = false;
  }
}
