/**
 * Open: opens a database file in a reliable state, or rejects it with a clear message and leaves it as
 * it was. One process per file. Every commit is fsynced; the setting is written at each open and read
 * back, because drivers have been seen to drop it.
 */
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { causedError, quote, RedriveError } from "@redrive/core";
import { MAX_LOG_PAGES } from "./checkpointer.ts";
import { assertOneName, realFile } from "./file-name.ts";
import { APPLICATION_ID, MIGRATIONS, migrate, SCHEMA_VERSION } from "./schema.ts";
import {
  type Database,
  firstValue,
  isBusy,
  type Ledger,
  type LedgerEntry,
  ledgerPath,
  openLedger,
  readLedger,
  sqliteCode,
  storeError,
  syncFolder,
  writeLedger,
} from "./sql.ts";

/** `synchronous=FULL`: the log is fsynced before a commit returns. */
const FULL_SYNC = 2;

/** Checking a larger file would delay the boot; `redrive doctor` checks those. */
const MAX_CHECKED_BYTES = 64 * 1024 * 1024;

/** Copying a larger file before a migration would take too long and too much space. */
const MAX_COPIED_BYTES = 256 * 1024 * 1024;

const CACHE_KIB = 32 * 1024;
const PAGE_BYTES = 4096;

interface OpenFile {
  /** The name without links, which every connection must use. */
  readonly file: string;
  readonly database: Database;
  readonly ledger: Ledger;
  /** Closes the connection and everything else, and leaves a single file. Other connections first. */
  close(): void;
}

/** A file that was checked and not changed. */
interface CheckedFile {
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

/** Brings the file to the schema of this version. `migrations`: only tests have others. */
export function prepare(
  database: Database,
  file: string,
  migrations: readonly string[] = MIGRATIONS,
): void {
  configure(database, file);
  if (statSync(file).size <= MAX_CHECKED_BYTES) checkIntegrity(database, file);
  const version = Number(firstValue(database, "SELECT * FROM pragma_user_version"));
  if (version > 0 && version < migrations.length) keepOldSchema(database, file, version);
  migrate(database, version, migrations);
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

// Owner: whether a database belongs to Redrive, and to a version that this one can read.

/** Throws for a database of another program or of a newer Redrive. An empty one is nobody's. */
export function assertOwn(database: Database, file: string): void {
  const owner = firstValue(database, "SELECT * FROM pragma_application_id");
  const version = Number(firstValue(database, "SELECT * FROM pragma_user_version"));
  const isEmpty = Number(firstValue(database, "SELECT * FROM pragma_schema_version")) === 0;
  if (owner !== APPLICATION_ID && !isEmpty) {
    const message = `${file} is a database of another program; give Redrive a separate file`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  if (version > SCHEMA_VERSION) {
    const versions = `its schema is ${version}, this version supports up to ${SCHEMA_VERSION}`;
    const message = `${file} was written by a newer Redrive (${versions}); upgrade this one`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
}

// File lock: one process per file. The operating system ends the lock with the process, however the
// process ends.
//
// POSIX locks belong to the process and end when it closes *any* descriptor of the file
// (https://sqlite.org/howtocorrupt.html, section 2.2). So nothing here opens an existing file except
// through SQLite, which knows its other connections.

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

function inUse(file: string, cause: unknown): Error {
  const advice = "one process per file: stop the other process, or use another file";
  const message = `${file} is in use by another process (${advice})`;
  return causedError("STORE_IN_USE", message, cause);
}

/**
 * The log and its index inherit the mode of the file, so the file is created before SQLite does.
 */
function makePrivate(file: string): void {
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

// File state: what a database says about itself: its identity, its last commit, and whether a process
// has it open. Compared with the ledger, it shows whether commits are missing.

interface FileState extends LedgerEntry {
  /** 0 if the file has none: it is new, or of a version without a ledger. */
  readonly fileId: number;
  readonly commit: number;
  /** A process has the file open, or ended without closing it. */
  readonly isOpen: boolean;
}

export function readState(database: Database): FileState {
  const hasMeta = firstValue(database, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'") === 1;
  const get = (name: string) =>
    Number(firstValue(database, `SELECT value FROM meta WHERE name = '${name}'`) ?? 0);
  if (!hasMeta) return { fileId: 0, commit: 0, isOpen: false };
  return { fileId: get("file_id"), commit: get("commit"), isOpen: get("open") === 1 };
}

/** SQL that sets a value of the state. */
export function setState(name: "file_id" | "commit" | "open", value: number): string {
  return `INSERT INTO meta VALUES ('${name}', ${value})
    ON CONFLICT DO UPDATE SET value = excluded.value;`;
}

/** Gives the file a new identity, so that no ledger of another file or time describes it. */
export function newIdentity(database: Database, more = ""): LedgerEntry {
  const fileId = Number(firstValue(database, "SELECT 1 + (random() & 0xfffffffffff)"));
  database.exec(`BEGIN IMMEDIATE; ${setState("file_id", fileId)} ${more} COMMIT`);
  return { fileId, commit: readState(database).commit };
}

/** What is missing, in words; undefined if nothing is. */
export function findLoss(ledger: LedgerEntry | undefined, state: FileState): string | undefined {
  if (ledger === undefined) {
    return state.isOpen
      ? "its ledger is missing, and it was not closed: commits of its log may be missing. It is a copy of a file in use, or another name of it, or the ledger was removed"
      : undefined;
  }
  if (state.fileId !== ledger.fileId) {
    return `it is not the database that its ledger describes: it was replaced, or used under another name. The ledger has ${ledger.commit} commits`;
  }
  const lost = ledger.commit - state.commit;
  if (lost <= 0) return undefined;
  return `${lost} of ${ledger.commit} commits are missing: its log (FILE-wal) was cut, removed or damaged, or an older copy was put in its place`;
}

/** The error for a file that lacks something which was acknowledged. */
export function damaged(file: string, what: string): RedriveError {
  const ways = [
    `put the missing files back (${file}, ${file}-wal and ${ledgerPath(file)} belong together)`,
    `restore a backup with \`redrive restore BACKUP --store sqlite:${file} --force\``,
    `or see what can be saved with \`redrive doctor --repair --store sqlite:${file}\``,
  ];
  const message = `${file} is damaged: ${what}. Nothing was changed. To continue, ${ways.join(", ")}`;
  return new RedriveError("STORE_DAMAGED", message);
}

// Copy file: writes a consistent copy of an open database to a new file. The writer continues
// meanwhile. The copy has its name only when it is complete, checked and on disk.

/** The name of a copy that is not complete. */
export function partOf(to: string): string {
  return `${to}.part`;
}

/** Throws `INVALID_ARGUMENT` if the target exists. */
export function copyTo(database: Database, to: string): void {
  const part = startCopy(to);
  try {
    database.exec(copyStatement(part));
    finishCopy(to);
  } catch (error) {
    rmSync(part, { force: true });
    throw error;
  }
}

/** Makes room for the copy and returns the name of the part. */
export function startCopy(to: string): string {
  assertNew(to);
  const part = partOf(to);
  rmSync(part, { force: true });
  // SQLite fills an existing empty file, which so has the right mode from the start.
  makePrivate(part);
  return part;
}

export function copyStatement(part: string): string {
  return `VACUUM INTO '${part.replaceAll("'", "''")}'`;
}

/** Checks the part and gives it its name. */
export function finishCopy(to: string): void {
  const part = partOf(to);
  checkCopy(part);
  syncFile(part);
  assertNew(to);
  renameSync(part, to);
  syncFolder(dirname(to));
}

function assertNew(to: string): void {
  if (!existsSync(to)) return;
  const message = `the copy must be a new file, got ${quote(to)}: it exists; name another one`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function checkCopy(file: string): void {
  const copy = new DatabaseSync(file, { readOnly: true });
  try {
    const found = firstValue(copy, "SELECT * FROM pragma_quick_check LIMIT 1");
    if (found !== "ok") throw new RedriveError("STORE_DAMAGED", `the copy is damaged: ${found}`);
  } finally {
    copy.close();
  }
}

/** For a file that no SQLite connection of this process has open. */
export function syncFile(file: string): void {
  const fd = openSync(file, "r+");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
