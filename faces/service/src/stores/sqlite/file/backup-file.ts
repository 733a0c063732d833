/**
 * Backup file: copies a store while its service runs. It opens the file for reading, so it needs
 * neither the service nor its lock.
 */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { quote, RedriveError } from "@redrive/core";
import { copyTo } from "./copy-file.ts";
import { storeError } from "./failure.ts";
import { assertOneName, realFile } from "./file-name.ts";
import { damaged, findLoss, readState } from "./file-state.ts";
import { readLedger } from "./ledger.ts";
import { assertOwn } from "./owner.ts";
import { firstValue } from "./query.ts";
import type { Database } from "./sql.ts";

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
 * Writes a copy of the store to a new file. It has every task that was acknowledged before the call.
 * Throws `INVALID_ARGUMENT` if `to` exists, and `STORE_DAMAGED` if commits are missing.
 */
export function backupSqliteFile(name: string, to: string): Backup {
  const file = realFile(name);
  assertStore(file);
  assertOneName(file);
  // Before the copy begins, so the database has at least these commits.
  const entry = readLedger(file);
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    database.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    assertOwn(database, file);
    const loss = entry && findLoss(entry, readState(database));
    if (loss !== undefined) throw damaged(file, loss);
    copyTo(database, resolve(to));
  } catch (error) {
    throw storeError(file, error);
  } finally {
    database.close();
  }
  return readBackup(resolve(to));
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
