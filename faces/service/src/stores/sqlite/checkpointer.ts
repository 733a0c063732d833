/**
 * Checkpointer: moves committed pages from the log into the database in a thread of its own. On the
 * main thread each such move keeps everybody waiting for several milliseconds, which under load was
 * the longest of all pauses. The writer goes on meanwhile, so that a little is always left to move:
 * that is the writer's own to do, and only then can the log begin anew.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/** Pages of the log after which it is moved: 16 MiB, so that a page that changes often moves once. */
export const CHECKPOINT_PAGES = 4096;

/** The writer moves everything itself from here on: the thread has failed or cannot keep up. */
export const MAX_LOG_PAGES = 4 * CHECKPOINT_PAGES;

const PAGE_BYTES = 4096;

/**
 * The most pages that a transaction writes: some however little it changes, and some for each item.
 * Items that lie side by side share theirs, so that it may be a tenth of that: each move tells.
 */
const PAGES_EACH = 6;
const PAGES_PER_ITEM = 3;
const MIN_SHARE = 0.05;

/** As text, because a worker needs a file that Node can run, and ours are compiled elsewhere. */
const WORKER = `
const { parentPort, workerData } = require("node:worker_threads");
const { DatabaseSync } = require(workerData.driver);
const database = new DatabaseSync(workerData.file);
database.exec("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0");
const move = database.prepare("PRAGMA wal_checkpoint(PASSIVE)");
parentPort.on("message", (message) => {
  if (message === "close") {
    database.close();
    parentPort.close();
    return;
  }
  try {
    parentPort.postMessage({ logPages: move.get().log });
  } catch (error) {
    parentPort.postMessage({ errcode: error.errcode ?? 0, text: String(error.message) });
  }
});`;

interface Reply {
  readonly logPages?: number;
  /** SQLite's, if it failed. */
  readonly errcode?: number;
  readonly text?: string;
}

/** How much a transaction wrote. */
export interface BatchSize {
  readonly items: number;
  /** Of bodies. */
  readonly bytes: number;
}

export interface Checkpointer {
  /** A transaction of that size was committed. */
  committed(size: BatchSize): void;
  /** Resolves once nothing is moved any more. Safe to call twice. */
  close(): Promise<void>;
}

export interface CheckpointerParts {
  readonly file: string;
  /** Moves what was written since, on the writing connection. */
  readonly checkpointRest: () => void;
  /** Moving has failed, with an error of SQLite. */
  readonly failed: (error: Error) => void;
}

/** The thread is started when there is something to move, and does not keep the process alive. */
export function createCheckpointer({
  file,
  checkpointRest,
  failed,
}: CheckpointerParts): Checkpointer {
  let worker: Worker | undefined;
  let isCheckpointing = false;
  let isClosed = false;
  /** Pages of the log when that was last known; the most since, now and when a move was asked for. */
  let knownPages = 0;
  let maxPages = 0;
  let maxPagesAsked = 0;
  /** Of the most, this share was true. */
  let share = 1;

  function onReply({ logPages, errcode, text = "" }: Reply): void {
    isCheckpointing = false;
    if (isClosed) return;
    maxPages = 0;
    if (errcode !== undefined) failed(Object.assign(new Error(text), { errcode }));
    if (logPages !== undefined) learn(logPages);
    if (knownPages >= CHECKPOINT_PAGES / 2) {
      checkpointRest();
      knownPages = 0;
    }
    consider();
  }

  /** By halves at most: a log that began anew by itself has grown by more than it shows. */
  function learn(logPages: number): void {
    const measured = Math.min(1, (logPages - knownPages) / maxPagesAsked);
    share = Math.max(measured, share / 2, MIN_SHARE);
    knownPages = logPages;
  }

  function consider(): void {
    if (knownPages + maxPages * share < CHECKPOINT_PAGES || isCheckpointing || isClosed) return;
    maxPagesAsked = maxPages;
    isCheckpointing = true;
    worker ??= start();
    worker.postMessage("move");
  }

  function start(): Worker {
    const driver = createRequire(import.meta.url).resolve("@photostructure/sqlite");
    const started = new Worker(WORKER, { eval: true, workerData: { driver, file } });
    started.on("message", onReply);
    // Without it the writer moves everything by itself, later.
    started.on("error", () => {});
    started.unref();
    return started;
  }

  return {
    committed({ items, bytes }) {
      maxPages += PAGES_EACH + PAGES_PER_ITEM * items + bytes / PAGE_BYTES;
      consider();
    },
    async close() {
      isClosed = true;
      const ending = worker;
      worker = undefined;
      if (ending === undefined) return;
      const gone = new Promise((resolve) => ending.once("exit", resolve));
      ending.ref();
      ending.postMessage("close");
      await gone;
    },
  };
}
