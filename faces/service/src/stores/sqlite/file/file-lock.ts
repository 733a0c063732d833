/**
 * File lock: one process per file. The operating system ends the lock with the process, however the
 * process ends.
 *
 * POSIX locks belong to the process and end when it closes *any* descriptor of the file
 * (https://sqlite.org/howtocorrupt.html, section 2.2). So nothing here opens an existing file except
 * through SQLite, which knows its other connections.
 */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { causedError } from "@redrive/core";
import { isBusy, storeError } from "./failure.ts";
import type { Database } from "./sql.ts";

/** Locks a file next to the database. SQLite's own exclusive mode would lock out our reader too. */
export function lockFile(file: string): Database {
  const path = `${file}.lock`;
  makePrivate(path);
  const lock = new DatabaseSync(path);
  try {
    lock.exec("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    throw isBusy(error) ? inUse(file, error) : storeError(path, error);
  }
}

/**
 * Throws if any other process has the database open, under whatever name: SQLite locks the file
 * itself, and every open connection shares that lock. For a file whose ledger is not next to it.
 */
export function assertUnused(database: Database, file: string): void {
  try {
    database.exec(`
      PRAGMA locking_mode = EXCLUSIVE;
      BEGIN IMMEDIATE;
      PRAGMA locking_mode = NORMAL;
      COMMIT`);
  } catch (error) {
    throw isBusy(error) ? inUse(file, error) : error;
  }
}

/**
 * The last connection that closes would move the log into the file and delete it. While another
 * connection is open it does not, and a read-only connection never does.
 */
export function closeUntouched(database: Database, file: string): void {
  const witness = new DatabaseSync(file, { readOnly: true });
  try {
    witness.exec("SELECT count(*) FROM sqlite_schema");
  } catch {
    // The file is damaged; then nothing is moved either.
  }
  database.close();
  witness.close();
}

export function inUse(file: string, cause: unknown): Error {
  const advice = "one process per file: stop the other process, or use another file";
  const message = `${file} is in use by another process (${advice})`;
  return causedError("STORE_IN_USE", message, cause);
}

/**
 * The log and its index inherit the mode of the file, so the file is created before SQLite does.
 */
export function makePrivate(file: string): void {
  makeFolder(dirname(file));
  try {
    closeSync(openSync(file, "wx", 0o600));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    // For a folder this throws, and its error says so.
    if (statSync(file).isDirectory()) openSync(file, "a");
  }
  chmodSync(file, 0o600);
}

/**
 * One folder at a time: with `recursive`, Node never returns if a folder cannot be created, as
 * below /proc.
 */
function makeFolder(folder: string): void {
  if (existsSync(folder)) return;
  makeFolder(dirname(folder));
  mkdirSync(folder, { mode: 0o700 });
}
