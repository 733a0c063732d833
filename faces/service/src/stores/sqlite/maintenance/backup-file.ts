/**
 * Backup file: copies a store while its service runs. It opens the file for reading, so it needs
 * neither the service nor its lock.
 */
import { once } from "node:events";
import { existsSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { DatabaseSync } from "@photostructure/sqlite";
import { quote, RedriveError } from "@redrive/core";
import { assertOneName, realFile } from "../file/file-name.ts";
import {
  assertOwn,
  copyStatement,
  damaged,
  findLoss,
  finishCopy,
  partOf,
  readState,
  startCopy,
} from "../file/open.ts";
import { type Database, firstValue, readLedger, storeError } from "../file/sql.ts";

export interface Backup {
  readonly file: string;
  readonly bytes: number;
  /** The last commit of the store that is in the copy. */
  readonly commit: number;
  readonly tasks: number;
  readonly schema: number;
}

/** A reader waits this long for a writer that recovers or closes the log. */
const BUSY_MS = 5000;

/**
 * As a string, because a worker needs a file that Node can run, and ours are compiled elsewhere.
 */
const WORKER = `
const { parentPort, workerData } = require("node:worker_threads");
const { DatabaseSync } = require(workerData.driver);
const database = new DatabaseSync(workerData.file, { readOnly: true });
try {
  database.exec(workerData.sql);
  parentPort.postMessage({});
} catch (error) {
  parentPort.postMessage({ errcode: error.errcode ?? 0, text: String(error.message) });
} finally {
  database.close();
}`;

/** The name of the copy until it is complete; its size shows the progress. */
export const backupPart = partOf;

/**
 * Writes a copy of the store to a new file, on a thread. It has every task that was acknowledged
 * before the call. Throws `INVALID_ARGUMENT` if `to` exists, and `STORE_DAMAGED` if commits are
 * missing.
 */
export async function backupSqliteFile(name: string, target: string): Promise<Backup> {
  const file = realFile(name);
  const to = resolve(target);
  assertStore(file);
  assertOneName(file);
  assertComplete(file);
  const part = startCopy(to);
  try {
    await copyOnThread(file, `PRAGMA busy_timeout = ${BUSY_MS}; ${copyStatement(part)}`);
    finishCopy(to);
    return readBackup(to);
  } catch (error) {
    rmSync(part, { force: true });
    throw storeError(file, error);
  }
}

/** The ledger is read first, so the database has at least its commits. */
function assertComplete(file: string): void {
  const entry = readLedger(file);
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    assertOwn(database, file);
    const loss = entry && findLoss(entry, readState(database));
    if (loss !== undefined) throw damaged(file, loss);
  } catch (error) {
    throw storeError(file, error);
  } finally {
    database.close();
  }
}

async function copyOnThread(file: string, sql: string): Promise<void> {
  const driver = createRequire(import.meta.url).resolve("@photostructure/sqlite");
  const worker = new Worker(WORKER, { eval: true, workerData: { driver, file, sql } });
  const [{ errcode, text }] = (await once(worker, "message")) as [Reply];
  if (errcode !== undefined) throw Object.assign(new Error(text), { errcode });
}

interface Reply {
  /** SQLite's error code, if it failed. */
  readonly errcode?: number;
  readonly text?: string;
}

function assertStore(file: string): void {
  if (existsSync(file) && statSync(file).size > 0) return;
  const message = `the store must exist, got ${quote(file)}: there is no such file, or it is empty`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

/** What a backup contains. Throws if it is not a store, newer than this version, or damaged. */
export function readBackup(file: string): Backup {
  assertStore(file);
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    assertOwn(database, file);
    const found = firstValue(database, "SELECT * FROM pragma_integrity_check LIMIT 1");
    if (found !== "ok") throw new RedriveError("STORE_DAMAGED", `${file} is damaged: ${found}`);
    return describe(database, file);
  } catch (error) {
    throw storeError(file, error);
  } finally {
    database.close();
  }
}

function describe(database: Database, file: string): Backup {
  return {
    file,
    bytes: statSync(file).size,
    commit: readState(database).commit,
    tasks: Number(firstValue(database, "SELECT count(*) FROM tasks")),
    schema: Number(firstValue(database, "SELECT * FROM pragma_user_version")),
  };
}
