/**
 * Reader: a read-only connection in a worker thread, so that a long list never blocks the writer.
 * The worker does not know tasks: it runs a statement and returns the rows.
 */
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import type { Cell } from "../rows/codec.ts";

export interface Reader {
  all(sql: string, params: readonly Cell[]): Promise<readonly Cell[][]>;
  close(): Promise<void>;
}

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
parentPort.on("message", ({ id, sql, params }) => {
  try {
    parentPort.postMessage({ id, rows: prepared(sql).all(...params) });
  } catch (error) {
    parentPort.postMessage({ id, error: String(error && error.message) });
  }
});`;

interface Reply {
  readonly id: number;
  readonly rows?: readonly Cell[][];
  readonly error?: string;
}

interface Waiting {
  readonly resolve: (rows: readonly Cell[][]) => void;
  readonly reject: (error: Error) => void;
}

/** The worker starts with the first query and does not keep the process alive. */
export function createReader(file: string): Reader {
  const waiting = new Map<number, Waiting>();
  let worker: Worker | undefined;
  let lastId = 0;

  function settle({ id, rows, error }: Reply): void {
    const request = waiting.get(id);
    waiting.delete(id);
    if (waiting.size === 0) worker?.unref();
    if (rows !== undefined) request?.resolve(rows);
    else request?.reject(new Error(`reading ${file} failed: ${error}`));
  }

  function failAll(error: Error): void {
    worker = undefined;
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  function start(): Worker {
    const driver = createRequire(import.meta.url).resolve("@photostructure/sqlite");
    const started = new Worker(WORKER, { eval: true, workerData: { driver, file } });
    started.on("message", settle);
    started.on("error", failAll);
    return started;
  }

  return {
    all: (sql, params) =>
      new Promise((resolve, reject) => {
        worker ??= start();
        worker.ref();
        const id = ++lastId;
        waiting.set(id, { resolve, reject });
        worker.postMessage({ id, sql, params });
      }),
    async close() {
      const ending = worker;
      failAll(new Error(`${file} is closed`));
      await ending?.terminate();
    },
  };
}
