/**
 * SQL: the only writing connection, its prepared statements and its transactions. After SQLite
 * reports that the file is unreliable, every further use is rejected.
 */

import {
  closeSync,
  fdatasync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync, StatementSync } from "@photostructure/sqlite";
import { type Clock, messageOf, RedriveError } from "@redrive/core";
import {
  StoreBrokenError,
  StoreFullError,
  StoreRefusedError,
} from "../../../model/store-errors.ts";

/**
 * A limit as a parameter of a prepared statement. SQLite plans a bare `LIMIT ?` again whenever it
 * is bound, which makes a claim six times as expensive.
 */
export const ANY_LIMIT = "(? + 0)";

/**
 * Up to this many rows are read on the writing connection: they take a fraction of a millisecond, and
 * the thread of a reader need not start for them.
 */
export const FEW_ROWS = 100;

/** Outside of transactions only. Checkpoints and a restart of the log are synced with both. */
const COMMIT_WITH_SYNC = "PRAGMA synchronous = FULL";
const COMMIT_WITHOUT_SYNC = "PRAGMA synchronous = NORMAL";

export interface Sql {
  readonly file: string;
  /**
   * Prepares a statement that returns rows as arrays. Where every microsecond counts, `get` runs a write
   * whose result nobody needs: `run` builds an object with the result.
   */
  prepare(text: string): Statement;
  /**
   * Runs `work` in a transaction, which is durable once this returns. Throws the error of
   * `storeError`, and for a failure of `work` that of `transactionError`.
   */
  transaction<T>(work: () => T, onRollback?: () => void): T;
  /**
   * Like `transaction`, but it is durable only with the next transaction or checkpoint. A power cut
   * may undo it, as a whole and with nothing before it.
   */
  unsyncedTransaction<T>(work: () => T, onRollback?: () => void): T;
  /**
   * Like `transaction`, but it is durable only once the log is synced. The caller syncs the log, and
   * then calls `recordSync`.
   */
  laterSyncedTransaction<T>(work: () => T, onRollback?: () => void): LaterSynced<T>;
  /** Reads outside of a transaction; a broken store is rejected here too. */
  read<T>(work: () => T): T;
  /**
   * Reports a failure of the same file elsewhere; it applies to this connection too. Returns the
   * error of `storeError`.
   */
  fail(error: unknown): unknown;
}

interface LaterSynced<T> {
  readonly result: T;
  recordSync(): void;
}

/** Counts the commits in the ledger, if there is one. */
export function createSql(database: Database, file: string, ledger?: Ledger): Sql {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const rollback = database.prepare("ROLLBACK");
  const { commit, commitUncounted, record } = numberedCommits(database, ledger);
  const finish = () => record(commit());
  const setSync = syncSwitch(database);
  let broken: StoreBrokenError | undefined;
  function translate(error: unknown, convert = storeError): unknown {
    const translated = convert(file, error);
    if (translated instanceof StoreBrokenError) broken = translated;
    return translated;
  }

  function undo(): void {
    try {
      if (database.isTransaction) rollback.run();
    } catch (error) {
      translate(error);
    }
  }

  function runTransaction<T>(
    isSynced: boolean,
    work: () => T,
    onRollback: (() => void) | undefined,
    end: () => void,
  ): T {
    if (broken !== undefined) throw broken;
    let isWorking = false;
    try {
      setSync(isSynced);
      begin.get();
      isWorking = true;
      const result = work();
      isWorking = false;
      end();
      return result;
    } catch (error) {
      undo();
      const translated = translate(error, isWorking ? transactionError : storeError);
      if (broken === undefined) onRollback?.();
      throw translated;
    }
  }

  return {
    file,
    prepare(text) {
      const statement = database.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    },
    transaction: (work, onRollback) => runTransaction(true, work, onRollback, finish),
    // Without a number: after a power cut, the ledger would have more commits than the file.
    unsyncedTransaction: (work, onRollback) =>
      runTransaction(false, work, onRollback, commitUncounted),
    laterSyncedTransaction(work, onRollback) {
      let number = 0;
      const result = runTransaction(false, work, onRollback, () => {
        number = commit();
      });
      return { result, recordSync: () => record(number) };
    },
    read(work) {
      if (broken !== undefined) throw broken;
      try {
        return work();
      } catch (error) {
        throw translate(error);
      }
    },
    fail: (error) => translate(error),
  };
}

/** Parsing the pragma costs as much as writing a row, so it runs only if it changes something. */
function syncSwitch(database: Database): (isSynced: boolean) => void {
  let current = true;
  return (isSynced) => {
    if (isSynced === current) return;
    database.exec(isSynced ? COMMIT_WITH_SYNC : COMMIT_WITHOUT_SYNC);
    current = isSynced;
  };
}

// Query: reads single values while a file is opened and checked. The driver has no way to finalize a
// prepared statement, and a connection with one stays open after `close()` until it is garbage
// collected, together with its locks. So these reads use none.

/** The first value of the first row; undefined if there is no row, null for NULL. */
export function firstValue(database: Database, query: string): unknown {
  return firstColumn(database, query)[0];
}

/** The first column of all rows. */
export function firstColumn(database: Database, query: string): readonly unknown[] {
  const found: unknown[] = [];
  database.function("redrive_found", (value: unknown) => {
    found.push(value);
    return null;
  });
  database.exec(`WITH rows(value) AS (${query}) SELECT redrive_found(value) FROM rows`);
  return found;
}

// Failure: classifies errors of SQLite. A full disk breaks nothing and may be temporary. After an
// I/O error, above all a failed fsync, the content of the disk is unknown. Nothing may be
// acknowledged then, so the store reports itself broken and the process must restart.

/** Primary result codes, https://sqlite.org/rescode.html. */
const ERROR = 1;
const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const TOOBIG = 18;
const CONSTRAINT = 19;
const MISMATCH = 20;
const MISUSE = 21;
const RANGE = 25;
const NOTADB = 26;

/** The primary code of a SQLite error; 0 for any other error. */
export function sqliteCode(error: unknown): number {
  const code = (error as { readonly errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : 0;
}

export function isBusy(error: unknown): boolean {
  return sqliteCode(error) === BUSY;
}

/** The error to throw for an error of SQLite. */
export function storeError(file: string, error: unknown): unknown {
  const text = messageOf(error);
  switch (sqliteCode(error)) {
    case BUSY: {
      const fix = "end its transaction; Redrive tries again";
      return new Error(`another program is writing to ${file}: ${fix}`, {
        cause: error,
      });
    }
    case FULL:
      return new StoreFullError(`no space left for ${file}: ${text}`, { cause: error });
    case READONLY:
    case IOERR:
    case CORRUPT:
    case CANTOPEN:
      return new StoreBrokenError(`${file} failed, restart the process: ${text}`, { cause: error });
    case NOTADB: {
      const fix = "give Redrive a separate file, or restore it from a backup";
      return new StoreBrokenError(`${file} is not a database: ${fix}`, { cause: error });
    }
    default:
      return error;
  }
}

/** The content of a statement is the cause, so it would fail again. */
const REFUSALS: ReadonlySet<number> = new Set([ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE, RANGE]);

/**
 * The error to throw for an error inside a transaction that was rolled back. An error of our own
 * code, for example for a value that cannot be bound, has no code of SQLite.
 */
function transactionError(file: string, error: unknown): unknown {
  const translated = storeError(file, error);
  if (translated !== error) return translated;
  const code = sqliteCode(error);
  if (code !== 0 && !REFUSALS.has(code)) return error;
  const text = messageOf(error);
  return new StoreRefusedError(`${file} refuses an item: ${text}`, { cause: error });
}

// Numbered commits: gives each commit the next number, in the same transaction, and records the
// number in the ledger once the commit is durable.

interface NumberedCommits {
  /** Commits, and returns the number of the last commit. */
  commit(): number;
  commitUncounted(): void;
  /** The commit with this number and all before it are durable. */
  record(number: number): void;
}

/** Without a ledger, nothing is counted. */
function numberedCommits(database: Database, ledger: Ledger | undefined): NumberedCommits {
  const commit = database.prepare("COMMIT");
  const commitUncounted = () => void commit.get();
  if (ledger === undefined) {
    const commitFirst = () => {
      commit.get();
      return 0;
    };
    return { commit: commitFirst, commitUncounted, record: () => {} };
  }
  const setNumber = database.prepare("UPDATE meta SET value = ? WHERE name = 'commit'");
  const getChanges = database.prepare("SELECT total_changes()");
  getChanges.setReturnArrays(true);
  const countChanges = () => (getChanges.get() as unknown as readonly [number])[0];
  let known = countChanges();
  let last = ledger.commit;

  /** A transaction that changed nothing gets no number, because it would need an fsync for it. */
  function commitNext(): number {
    const changes = countChanges();
    if (changes === known) {
      commit.get();
      return last;
    }
    setNumber.get(last + 1);
    known = changes + 1;
    commit.get();
    last++;
    return last;
  }

  return { commit: commitNext, commitUncounted, record: (number) => ledger.record(number) };
}

// Ledger: a small file next to the database with the identity of the database and the number of its
// last commit. The database has both too. If it has fewer commits than the ledger, some are lost.
// Each commit overwrites the number in place. That survives the end of the process without an
// fsync. A service does it at the end of the turn, once for all commits of the turn, so that no
// request waits for it. The ledger is synced once per thousand writes. So after a power cut, or
// after a kill within that turn, it may be behind the database, never ahead of it.

/** What the database and its ledger agree on. */
export interface LedgerEntry {
  /** A random number; a file that is replaced by another one is found by it. */
  readonly fileId: number;
  /** The number of the last commit, counted from 1. */
  readonly commit: number;
}

export interface Ledger {
  /** The number of the last commit. */
  readonly commit: number;
  /**
   * Records that this commit and all before it are durable. Never throws: a ledger that is behind
   * only finds less.
   */
  record(commit: number): void;
  /** From now on, numbers are written at the end of the turn of the event loop. */
  deferWrites(clock: Pick<Clock, "endOfTurn">): void;
  close(): void;
}

/** One in so many writes is followed by an fsync on a thread. */
const WRITES_PER_SYNC = 1000;

const HEAD = "redrive ledger 1";
const ID_DIGITS = 12;
const COMMIT_DIGITS = 16;
const COMMIT_AT = HEAD.length + " file ".length + ID_DIGITS + " commit ".length;
const PATTERN = /^redrive ledger 1 file (?<id>[\da-f]{12}) commit (?<commit>\d{16})\n$/u;

export function ledgerPath(file: string): string {
  return `${file}.ledger`;
}

/** Undefined if there is none. Throws `STORE_DAMAGED` if it cannot be read. */
export function readLedger(file: string): LedgerEntry | undefined {
  const text = readText(ledgerPath(file));
  if (text === undefined) return undefined;
  const { id, commit } = PATTERN.exec(text)?.groups ?? {};
  if (id !== undefined) return { fileId: Number.parseInt(id, 16), commit: Number(commit) };
  const message = `${ledgerPath(file)} is damaged: run \`redrive doctor --repair --store sqlite:${file}\``;
  throw new RedriveError("STORE_DAMAGED", message);
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Creates or replaces the ledger. A crash leaves the old one or the new one. */
export function writeLedger(file: string, { fileId, commit }: LedgerEntry): void {
  const path = ledgerPath(file);
  const id = fileId.toString(16).padStart(ID_DIGITS, "0");
  const fd = openSync(`${path}.new`, "w", 0o600);
  try {
    writeSync(fd, `${HEAD} file ${id} commit ${digitsOf(commit)}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(`${path}.new`, path);
  syncFolder(dirname(path));
}

/** Makes new names in the folder durable. */
export function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Opens an existing ledger for recording. */
export function openLedger(file: string, commit: number): Ledger {
  const fd = openSync(ledgerPath(file), "r+");
  const digits = Buffer.alloc(COMMIT_DIGITS);
  let last = commit;
  let writes = 0;
  let turns: Pick<Clock, "endOfTurn"> | undefined;
  let isPending = false;
  let isSyncing = false;
  let isClosed = false;

  function sync(): void {
    isSyncing = true;
    fdatasync(fd, () => {
      isSyncing = false;
      if (isClosed) closeSync(fd);
    });
  }

  function write(): void {
    isPending = false;
    digits.write(digitsOf(last), "latin1");
    try {
      writeSync(fd, digits, 0, COMMIT_DIGITS, COMMIT_AT);
    } catch {
      // The commit is durable, so its results are returned. The next commit tries again.
    }
    writes = (writes + 1) % WRITES_PER_SYNC;
    if (writes === 0 && !isSyncing) sync();
  }

  function writePending(): void {
    if (isPending) write();
  }

  return {
    get commit() {
      return last;
    },
    record(number) {
      if (number <= last) return;
      last = number;
      if (turns === undefined) write();
      else if (!isPending) turns.endOfTurn(writePending);
      isPending = turns !== undefined;
    },
    deferWrites(clock) {
      turns = clock;
    },
    close() {
      if (isClosed) return;
      writePending();
      isClosed = true;
      if (!isSyncing) closeSync(fd);
    },
  };
}

function digitsOf(commit: number): string {
  return String(commit).padStart(COMMIT_DIGITS, "0");
}

// Database: the types of the SQLite driver.

/** The driver exports its classes as values only. */
export type Database = InstanceType<typeof DatabaseSync>;
export type Statement = InstanceType<typeof StatementSync>;
