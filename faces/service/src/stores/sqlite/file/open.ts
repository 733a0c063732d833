/**
 * Open: opens a database file in a reliable state, or rejects it with a clear message and leaves it as
 * it was. One process per file. Every commit is fsynced; the setting is written at each open and read
 * back, because drivers have been seen to drop it.
 */
import { existsSync, statSync } from "node:fs";
import { DatabaseSync } from "@photostructure/sqlite";
import { causedError, quote, type RedriveError } from "@redrive/core";
import { MAX_LOG_PAGES } from "./checkpointer.ts";
import { copyTo } from "./copy-file.ts";
import { isBusy, sqliteCode, storeError } from "./failure.ts";
import { assertUnused, closeUntouched, inUse, lockFile, makePrivate } from "./file-lock.ts";
import { assertOneName, realFile } from "./file-name.ts";
import {
  damaged,
  type FileState,
  findLoss,
  newIdentity,
  readState,
  setState,
} from "./file-state.ts";
import { type Ledger, type LedgerEntry, openLedger, readLedger, writeLedger } from "./ledger.ts";
import { migrate, SCHEMA_VERSION } from "./migrations.ts";
import { assertOwn } from "./owner.ts";
import { firstValue } from "./query.ts";
import type { Database } from "./sql.ts";

/** `synchronous=FULL`: the log is fsynced before a commit returns. */
const FULL_SYNC = 2;

/** Checking a larger file would delay the boot; `redrive doctor` checks those. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/** Copying a larger file before a migration would take too long and too much space. */
const MAX_COPIED_BYTES = 256 * 1024 * 1024;

const CACHE_KIB = 32 * 1024;
const PAGE_BYTES = 4096;

export interface OpenFile {
  /** The name without links, which every connection must use. */
  readonly file: string;
  readonly database: Database;
  readonly ledger: Ledger;
  /** Closes the connection and everything else, and leaves a single file. Other connections first. */
  close(): void;
}

/** A file that was checked and not changed. */
export interface CheckedFile {
  readonly file: string;
  readonly database: Database;
  readonly state: FileState;
  /** Undefined if there is none yet. */
  readonly entry: LedgerEntry | undefined;
  /** Leaves the file and its log as they are. */
  close(): void;
}

/**
 * Opens or creates the file. Throws if it is in use, foreign, newer than this version, or damaged.
 */
export function openFile(name: string): OpenFile {
  return withLock(name, (file, lock) => {
    const checked = checkConnection(file);
    const { database } = checked;
    try {
      prepare(database, file);
      return open(checked, lock);
    } catch (error) {
      checked.close();
      throw error;
    }
  });
}

/** Opens an existing file for a look. Throws like `openFile`. */
export function openForCheck(name: string): CheckedFile {
  return withLock(name, (file, lock) => {
    const checked = checkConnection(file);
    const close = () => {
      checked.close();
      lock.close();
    };
    return { ...checked, close };
  });
}

function withLock<T>(name: string, work: (file: string, lock: Database) => T): T {
  let lock: Database | undefined;
  let file = name;
  try {
    file = realFile(name);
    lock = lockFile(file);
    return work(file, lock);
  } catch (error) {
    lock?.close();
    if (isOfFileSystem(error)) throw unmakable(name, error);
    throw isBusy(error) ? inUse(file, error) : storeError(file, error);
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

/** Everything that can be checked without a change. SQLite would delete the log of an empty file. */
function checkConnection(file: string): CheckedFile {
  const entry = readLedger(file);
  const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes === 0 && entry !== undefined) {
    throw damaged(file, `it is empty or missing, but had ${entry.commit} commits`);
  }
  assertOneName(file);
  makePrivate(file);
  const database = new DatabaseSync(file);
  const close = () => closeUntouched(database, file);
  try {
    // A statement never waits for another program on this thread: the engine tries again instead.
    database.exec("PRAGMA busy_timeout = 0");
    const isUnknown = entry === undefined && bytes > 0;
    assertOwnUnlessUsed(database, file, isUnknown);
    if (isUnknown) assertUnused(database, file);
    const state = readState(database);
    const loss = findLoss(entry, state);
    if (loss !== undefined) throw damaged(file, loss);
    return { file, database, state, entry, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** While another process uses a file at another name, where its log is, the file can look damaged. */
function assertOwnUnlessUsed(database: Database, file: string, isUnknown: boolean): void {
  try {
    assertOwn(database, file);
  } catch (error) {
    if (isUnknown && sqliteCode(error) !== 0) assertUnused(database, file);
    throw error;
  }
}

function prepare(database: Database, file: string): void {
  configure(database, file);
  if (statSync(file).size <= MAX_CHECKED_BYTES) checkIntegrity(database, file);
  const version = Number(firstValue(database, "SELECT * FROM pragma_user_version"));
  if (version > 0 && version < SCHEMA_VERSION) keepOldSchema(database, file, version);
  migrate(database, version);
}

/** Migrations go forward only, so the older program needs a copy. Larger files: `redrive backup`. */
function keepOldSchema(database: Database, file: string, version: number): void {
  const copy = `${file}.schema-${version}`;
  if (statSync(file).size <= MAX_COPIED_BYTES && !existsSync(copy)) copyTo(database, copy);
}

function open({ file, database, state, entry }: CheckedFile, lock: Database): OpenFile {
  const { fileId, commit } = entry === undefined ? newIdentity(database) : state;
  if (entry === undefined) writeLedger(file, { fileId, commit });
  const ledger = openLedger(file, commit);
  const mark = (isOpen: 0 | 1) => {
    const number = ledger.commit + 1;
    database.exec(
      `BEGIN IMMEDIATE; ${setState("open", isOpen)} ${setState("commit", number)} COMMIT`,
    );
    ledger.record(number);
  };
  if (state.isOpen) {
    ledger.record(commit);
  } else {
    mark(1);
    // The mark must be in the file itself: a process that uses another name does not see this log.
    database.exec("PRAGMA wal_checkpoint(PASSIVE)");
  }
  return { file, database, ledger, close: () => closeFile(database, mark, [ledger, lock]) };
}

/**
 * Best effort: the next open does the rest. The connection stays open until its statements are
 * garbage collected (see `query.ts`), but without a write-ahead log it holds no lock.
 */
function closeFile(
  database: Database,
  mark: (isOpen: 0) => void,
  others: readonly { close(): void }[],
): void {
  try {
    if (database.isTransaction) database.exec("ROLLBACK");
    database.exec("PRAGMA synchronous = FULL");
    mark(0);
    database.exec("PRAGMA journal_mode = DELETE");
  } catch {
    // The next open replays the log.
  }
  database.close();
  for (const other of others) other.close();
}

function configure(database: Database, file: string): void {
  database.exec("PRAGMA journal_mode = WAL");
  const mode = firstValue(database, "SELECT * FROM pragma_journal_mode");
  if (mode !== "wal") throw new Error(`${file} does not support a write-ahead log, got ${mode}`);
  database.exec(`
    PRAGMA synchronous = FULL;
    PRAGMA cell_size_check = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = ${MAX_LOG_PAGES};
    PRAGMA journal_size_limit = ${MAX_LOG_PAGES * PAGE_BYTES};
    PRAGMA cache_size = -${CACHE_KIB}`);
  const synchronous = firstValue(database, "SELECT * FROM pragma_synchronous");
  if (synchronous !== FULL_SYNC) {
    throw new Error(`${file} would not fsync its commits: synchronous is ${synchronous}`);
  }
}

function checkIntegrity(database: Database, file: string): void {
  const found = firstValue(database, "SELECT * FROM pragma_quick_check LIMIT 1");
  if (found !== "ok") throw damaged(file, String(found));
}
