/**
 * Checkpointer: copies committed pages from the write-ahead log into the database on a worker
 * thread. On the main thread each checkpoint blocked for several milliseconds, the longest pause
 * under load. The writer continues meanwhile, so a few pages remain; the writer checkpoints those
 * itself, and only then can the log restart.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";

/**
 * Pages of the log that trigger a checkpoint: 16 MiB, so that a page that changes often is copied
 * once.
 */
export const CHECKPOINT_PAGES = 4096;

/** From here on the writer checkpoints by itself: the thread has failed or cannot keep up. */
export const MAX_LOG_PAGES = 4 * CHECKPOINT_PAGES;

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
 */
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

export interface CheckpointerParts {
  readonly file: string;
  /** Checkpoints the remaining pages on the writing connection. */
  readonly checkpointRest: () => void;
  /** Called with SQLite's error when a checkpoint fails. */
  readonly failed: (error: Error) => void;
}

/** The thread starts with the first checkpoint and does not keep the process alive. */
export function createCheckpointer({
  file,
  checkpointRest,
  failed,
}: CheckpointerParts): Checkpointer {
  let worker: Worker | undefined;
  let isCheckpointing = false;
  let isClosed = false;
  /**
   * Pages of the log at the last measurement; the upper bound written since, now and when the
   * running checkpoint was requested.
   */
  let knownPages = 0;
  let maxPages = 0;
  let maxPagesAsked = 0;
  /** The measured share of the upper bound. */
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

  /** At most halved per measurement: a log that has restarted has grown by more than it shows. */
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
    // If the thread fails, the writer checkpoints by itself later.
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
