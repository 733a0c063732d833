/**
 * Repair file: says what a refused file still has, and accepts it as it is when told to. It never
 * restores what is lost, and it keeps a copy of the files as they were.
 */
import { copyFileSync, existsSync, renameSync, statSync } from "node:fs";
import { DatabaseSync } from "@photostructure/sqlite";
import { quote, RedriveError } from "@redrive/core";
import { assertOneName, realFile } from "../file/file-name.ts";
import {
  assertOwn,
  assertUnused,
  closeUntouched,
  findLoss,
  lockFile,
  newIdentity,
  readState,
  setState,
} from "../file/open.ts";
import {
  type Database,
  firstColumn,
  firstValue,
  type LedgerEntry,
  ledgerPath,
  readLedger,
  storeError,
  writeLedger,
} from "../file/sql.ts";
import { freeName } from "./restore-file.ts";

export interface FileReport {
  readonly file: string;
  /** What is missing; null if nothing is. */
  readonly loss: string | null;
  /** Problems of the pages; with any, the file cannot be accepted. */
  readonly damage: readonly string[];
  /** Commits in the file, and according to the ledger; null if it has none. */
  readonly commits: number;
  readonly ledgerCommits: number | null;
  /** When the ledger was last written, epoch ms: about the last commit. */
  readonly ledgerWrittenAt: number | null;
  /** Tasks that are in the file, and when the newest of them was created. */
  readonly tasks: number;
  readonly newestTaskAt: number | null;
}

/** Changes nothing. Throws if the file is in use or of another program. */
export function inspectSqliteFile(name: string): FileReport {
  return withLock(name, inspect);
}

function withLock<T>(name: string, work: (file: string) => T): T {
  const file = realFile(name);
  if (!existsSync(file) && !existsSync(ledgerPath(file))) {
    throw new RedriveError("INVALID_ARGUMENT", `there is no store at ${quote(name)}`);
  }
  const lock = lockFile(file);
  try {
    assertOneName(file);
    return work(file);
  } catch (error) {
    throw storeError(file, error);
  } finally {
    lock.close();
  }
}

function inspect(file: string): FileReport {
  const path = ledgerPath(file);
  const entry = ledgerOf(file);
  const ledger = {
    ledgerCommits: typeof entry === "object" ? entry.commit : null,
    ledgerWrittenAt: existsSync(path) ? Math.floor(statSync(path).mtimeMs) : null,
  };
  const nothing = { damage: [], commits: 0, tasks: 0, newestTaskAt: null };
  if (isEmpty(file)) {
    const loss = entry === undefined ? null : "the database is empty or missing";
    return { file, loss, ...nothing, ...ledger };
  }
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA busy_timeout = 0");
    assertOwn(database, file);
    assertUnused(database, file);
    const state = readState(database);
    const loss = entry === "unreadable" ? "its ledger cannot be read" : findLoss(entry, state);
    return { file, loss: loss ?? null, commits: state.commit, ...contentOf(database), ...ledger };
  } catch (error) {
    if (error instanceof RedriveError) throw error;
    return { file, loss: null, ...nothing, damage: [(error as Error).message], ...ledger };
  } finally {
    closeUntouched(database, file);
  }
}

function isEmpty(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

function ledgerOf(file: string): LedgerEntry | undefined | "unreadable" {
  try {
    return readLedger(file);
  } catch {
    return "unreadable";
  }
}

function contentOf(database: Database) {
  const checks = firstColumn(database, "SELECT * FROM pragma_integrity_check LIMIT 10").map(String);
  const newest = firstValue(database, "SELECT max(created_at) FROM payloads");
  return {
    damage: checks.filter((text) => text !== "ok"),
    tasks: Number(firstValue(database, "SELECT count(*) FROM tasks")),
    newestTaskAt: newest === null ? null : Number(newest),
  };
}

export interface AcceptedLoss {
  readonly report: FileReport;
  /** Where the files as they were are. */
  readonly kept: string;
}

/**
 * Makes a file that lacks commits usable again, without them. Throws `STORE_DAMAGED` if its pages are
 * damaged, and `INVALID_ARGUMENT` if nothing is missing.
 */
export function acceptSqliteLoss(name: string): AcceptedLoss {
  return withLock(name, (file) => {
    const report = inspect(file);
    if (report.damage.length > 0) {
      const fix = "restore a backup with `redrive restore`";
      const message = `${file} is damaged and cannot be accepted as it is: ${report.damage[0]}; ${fix}`;
      throw new RedriveError("STORE_DAMAGED", message);
    }
    if (report.loss === null) {
      throw new RedriveError(
        "INVALID_ARGUMENT",
        `${file} lacks nothing: there is no loss to accept`,
      );
    }
    const kept = keepCopy(file);
    if (isEmpty(file)) moveAway(file, kept);
    else adopt(file);
    return { report, kept };
  });
}

/** No connection of this process is open, so its locks do not matter. */
function keepCopy(file: string): string {
  const kept = freeName(file, "damaged");
  for (const suffix of ["", "-wal", ".ledger"]) {
    if (existsSync(file + suffix)) copyFileSync(file + suffix, kept + suffix);
  }
  return kept;
}

/** The next start creates a new store. */
function moveAway(file: string, kept: string): void {
  for (const suffix of ["-wal", ".ledger"]) {
    if (existsSync(file + suffix)) renameSync(file + suffix, kept + suffix);
  }
}

function adopt(file: string): void {
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA busy_timeout = 0; PRAGMA synchronous = FULL");
    writeLedger(file, newIdentity(database, setState("open", 0)));
  } finally {
    database.close();
  }
}
