/**
 * Ledger: a small file next to the database with the identity of the database and the number of its
 * last commit. The database has both too. If it has fewer commits than the ledger, some are lost.
 *
 * Each commit overwrites the number in place. That survives the end of the process without an fsync.
 * A service does it at the end of the turn, once for all commits of the turn, so that no request waits
 * for it. The ledger is synced once per thousand writes. So after a power cut, or after a kill within
 * that turn, it may be behind the database, never ahead of it.
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
import { type Clock, RedriveError } from "@redrive/core";

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
