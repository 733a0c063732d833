/**
 * Open: opens a database file in a reliable state, or rejects it with a clear message. One process
 * per file. Every commit is fsynced; the setting is written at each open and read back, because
 * drivers have been seen to drop it.
 */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { causedError, quote, type RedriveError } from "@redrive/core";
import { MAX_LOG_PAGES } from "./checkpointer.ts";
import { isBusy, storeError } from "./failure.ts";
import { APPLICATION_ID } from "./first-schema.ts";
import { migrate, SCHEMA_VERSION } from "./migrations.ts";
import type { Database } from "./sql.ts";

/** `synchronous=FULL`: the log is fsynced before a commit returns. */
const FULL_SYNC = 2;

/** Checking a larger file would delay the boot; `redrive doctor` checks those. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

const CACHE_KIB = 32 * 1024;
const PAGE_BYTES = 4096;

export interface OpenFile {
  readonly database: Database;
  /** Holds the lock on the file while it is open. */
  readonly lock: Database;
}

/**
 * Opens or creates the file. Throws if it is in use, foreign, newer than this version, or damaged.
 */
export function openFile(file: string): OpenFile {
  let lock: Database | undefined;
  try {
    lock = lockFile(file);
    return { database: openDatabase(file), lock };
  } catch (error) {
    lock?.close();
    throw isOfFileSystem(error) ? unmakable(file, error) : storeError(file, error);
  }
}

function isOfFileSystem(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error;
}

function unmakable(file: string, cause: NodeJS.ErrnoException): RedriveError {
  const fix = FIXES[cause.code ?? ""] ?? "name a file that can be created";
  const message = `store must be a file that can be created, got ${quote(file)} (${cause.message}): ${fix}`;
  return causedError("INVALID_ARGUMENT", message, cause);
}

/** How to fix it, by error code of the file system. */
const FIXES: Readonly<Record<string, string>> = {
  EISDIR: "name a file, as in sqlite:FOLDER/redrive.db",
  ENOTDIR: "name a file in a folder",
  EACCES: "name a file that this user can write",
  EPERM: "name a file that this user can write",
  EROFS: "name a file on a writable disk",
  ENOENT: "name a file in a folder that can be created",
};

/**
 * The log and its index inherit the mode of the file, so the file is created before SQLite does.
 */
function makePrivate(file: string): void {
  makeFolder(dirname(file));
  closeSync(openSync(file, "a", 0o600));
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

/**
 * A lock of the operating system on a file next to the database. It ends with the process, however
 * the process ends. SQLite's own exclusive mode would lock out our reader too.
 */
function lockFile(file: string): Database {
  const path = `${file}.lock`;
  makePrivate(path);
  const lock = new DatabaseSync(path);
  try {
    lock.exec("PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw storeError(path, error);
    const advice = "one process per file: stop the other process, or use another file";
    throw new Error(`${file} is in use by another process (${advice})`, { cause: error });
  }
}

function openDatabase(file: string): Database {
  makePrivate(file);
  const database = new DatabaseSync(file);
  try {
    configure(database, file);
    checkOwner(database, file);
    if (statSync(file).size <= MAX_CHECKED_BYTES) checkIntegrity(database, file);
    migrate(database, Number(pragma(database, "user_version")));
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function configure(database: Database, file: string): void {
  database.exec("PRAGMA busy_timeout = 5000");
  const mode = pragma(database, "journal_mode = WAL");
  if (mode !== "wal") throw new Error(`${file} does not support a write-ahead log, got ${mode}`);
  database.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA cell_size_check = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = ${MAX_LOG_PAGES};
    PRAGMA journal_size_limit = ${MAX_LOG_PAGES * PAGE_BYTES};
    PRAGMA cache_size = -${CACHE_KIB}`);
  const synchronous = pragma(database, "synchronous");
  if (synchronous !== FULL_SYNC) {
    throw new Error(`${file} would not fsync its commits: synchronous is ${synchronous}`);
  }
}

function checkOwner(database: Database, file: string): void {
  const owner = pragma(database, "application_id");
  const version = Number(pragma(database, "user_version"));
  const isEmpty = Number(pragma(database, "schema_version")) === 0;
  if (owner !== APPLICATION_ID && !isEmpty) {
    throw new Error(`${file} is a database of another program; give Redrive a separate file`);
  }
  if (version > SCHEMA_VERSION) {
    const versions = `its schema is ${version}, this version supports up to ${SCHEMA_VERSION}`;
    throw new Error(`${file} was written by a newer Redrive (${versions}); upgrade this one`);
  }
}

function checkIntegrity(database: Database, file: string): void {
  const found = pragma(database, "quick_check(1)");
  if (found !== "ok") throw new Error(`${file} is damaged: ${found}; restore it from a backup`);
}

function pragma(database: Database, text: string): unknown {
  const row = database.prepare(`PRAGMA ${text}`).get() as Record<string, unknown> | undefined;
  return row === undefined ? undefined : Object.values(row)[0];
}
