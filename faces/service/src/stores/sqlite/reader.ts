/**
 * Reader: a read-only connection in a worker thread, so that a list never blocks the writer. The
 * worker does not know tasks: it runs one statement at a time and returns its rows. Every statement
 * is its own short read transaction, so that the write-ahead log can restart between two of them.
 *
 * SQLite's `interrupt` is not available in this driver. Statements examine a limited number of rows
 * instead. If one takes too long anyway, its thread is abandoned and another takes over.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { type Cancel, type Clock, systemClock } from "@redrive/core";
import type { Cell } from "./rows.ts";

export interface Reader {
  /** Statements run one after the other, in the order of the calls. */
  all(sql: string, params: readonly Cell[]): Promise<Rows>;
  close(): Promise<void>;
}

export type Rows = readonly Cell[][];

/**
 * A slice takes a few milliseconds, and the start of the thread some more. Only a disk that does not
 * respond takes this long.
 */
export const MAX_STATEMENT_MS = 15_000;

/**
 * As a string, because a worker needs a file that Node can run, and ours are compiled elsewhere.
 */
const WORKER = `
const { parentPort, workerData } = require("node:worker_threads");
const { DatabaseSync } = require(workerData.driver);
const database = new DatabaseSync(workerData.file, { readOnly: true });
database.exec("PRAGMA busy_timeout = 5000; PRAGMA query_only = ON");
const statements = new Map();
function prepared(sql) {
  let statement = statements.get(sql);
  if (statement === undefined) {
    if (statements.size >= 100) statements.clear();
    statement = database.prepare(sql);
    statement.setReturnArrays(true);
    statements.set(sql, statement);
  }
  return statement;
}
parentPort.on("message", ({ sql, params }) => {
  try {
    parentPort.postMessage({ rows: prepared(sql).all(...params) });
  } catch (error) {
    parentPort.postMessage({ error: String(error && error.message) });
  }
});`;

interface Reply {
  readonly rows?: Rows;
  readonly error?: string;
}

interface Job {
  readonly sql: string;
  readonly params: readonly Cell[];
  readonly resolve: (rows: Rows) => void;
  readonly reject: (error: Error) => void;
}

/** The worker starts with the first statement and does not keep the process alive. */
export function createReader(file: string, clock: Pick<Clock, "alarm"> = systemClock): Reader {
  const jobs: Job[] = [];
  let worker: Worker | undefined;
  let cancelAlarm: Cancel = () => {};

  function start(): Worker {
    const driver = createRequire(import.meta.url).resolve("@photostructure/sqlite");
    const started = new Worker(WORKER, { eval: true, workerData: { driver, file } });
    started.on("message", ({ rows, error }: Reply) => end(rows ?? failure(error)));
    started.on("error", (error) => {
      worker = undefined;
      end(failure(error.message));
    });
    return started;
  }

  /** Sends the first job to the worker. */
  function run({ sql, params }: Job): void {
    worker ??= start();
    worker.ref();
    cancelAlarm = clock.alarm(MAX_STATEMENT_MS, expire, true);
    worker.postMessage({ sql, params });
  }

  /** Ends the first job and runs the next. */
  function end(result: Rows | Error): void {
    cancelAlarm();
    const job = jobs.shift();
    const [next] = jobs;
    if (next === undefined) worker?.unref();
    else run(next);
    if (result instanceof Error) job?.reject(result);
    else job?.resolve(result);
  }

  function failure(text = ""): Error {
    return new Error(`reading ${file} failed: ${text}`);
  }

  function expire(): void {
    void abandon();
    end(failure(`a statement took over ${MAX_STATEMENT_MS} ms and was terminated`));
  }

  /** The thread ends when its statement does. Its reply no longer counts. */
  function abandon(): Promise<number> | undefined {
    const ending = worker;
    worker = undefined;
    ending?.removeAllListeners();
    // Without a listener, an error of the ending thread would end the process.
    ending?.on("error", () => {});
    return ending?.terminate();
  }

  return {
    all: (sql, params) =>
      new Promise((resolve, reject) => {
        const job = { sql, params, resolve, reject };
        if (jobs.push(job) === 1) run(job);
      }),
    async close() {
      const ending = abandon();
      cancelAlarm();
      for (const { reject } of jobs.splice(0)) reject(failure("it is closed"));
      await ending;
    },
  };
}
