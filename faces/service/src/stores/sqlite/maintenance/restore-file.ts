/**
 * Restore file: puts a backup in the place of a store. The old files are kept under another name. A
 * crash at any point leaves the old store, the new one, or files that the next start refuses.
 */
import { existsSync, linkSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { quote, RedriveError } from "@redrive/core";
import { assertOneName, realFile } from "../file/file-name.ts";
import {
  assertUnused,
  closeUntouched,
  copyTo,
  lockFile,
  newIdentity,
  setState,
  syncFile,
} from "../file/open.ts";
import { ledgerPath, syncFolder, writeLedger } from "../file/sql.ts";
import { type Backup, readBackup } from "./backup-file.ts";

export interface Restored {
  readonly file: string;
  readonly backup: Backup;
  /** Where the old database is; null if there was none. */
  readonly kept: string | null;
}

interface RestoreOptions {
  /** Replaces an existing store. Its files are kept. */
  readonly force?: boolean;
}

/** Throws `STORE_IN_USE` if a process uses the store, and `INVALID_ARGUMENT` if it exists. */
export function restoreSqliteFile(
  backup: string,
  store: string,
  { force = false }: RestoreOptions = {},
): Restored {
  const found = readBackup(resolve(backup));
  const file = realFile(store);
  const lock = lockFile(file);
  try {
    const exists = [file, `${file}-wal`, ledgerPath(file)].some((path) => existsSync(path));
    if (exists && !force) throw occupied(file);
    if (exists) assertFree(file);
    const restoring = `${file}.restoring`;
    rmSync(restoring, { force: true });
    const identity = prepareCopy(found.file, restoring);
    const kept = exists ? freeName(file, "old") : null;
    if (kept !== null) keepOld(file, kept);
    renameSync(restoring, file);
    syncFolder(dirname(file));
    writeLedger(file, identity);
    return { file, backup: found, kept };
  } finally {
    lock.close();
  }
}

function occupied(file: string): RedriveError {
  const fix = "use --force to replace it; its files are kept";
  return new RedriveError("INVALID_ARGUMENT", `there is a store at ${quote(file)}: ${fix}`);
}

/** A process may use the store under another name. SQLite would delete the log of an empty file. */
function assertFree(file: string): void {
  assertOneName(file);
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA busy_timeout = 0");
    assertUnused(database, file);
  } catch (error) {
    if (error instanceof RedriveError) throw error;
    // It is damaged, which is why it is replaced.
  } finally {
    closeUntouched(database, file);
  }
}

/** A copy with an identity of its own, so that the ledger of the old store does not describe it. */
function prepareCopy(backup: string, restoring: string) {
  const source = new DatabaseSync(backup, { readOnly: true });
  try {
    copyTo(source, restoring);
  } finally {
    source.close();
  }
  const copy = new DatabaseSync(restoring);
  try {
    return newIdentity(copy, setState("open", 0));
  } finally {
    copy.close();
    syncFile(restoring);
  }
}

/** A name that no file has: FILE.old-1, FILE.old-2 and so on. */
export function freeName(file: string, kind: "old" | "damaged"): string {
  for (let number = 1; ; number++) {
    const name = `${file}.${kind}-${number}`;
    const isTaken = [name, `${name}-wal`, ledgerPath(name)].some((path) => existsSync(path));
    if (!isTaken) return name;
  }
}

/**
 * The log goes first: with the new database it would damage it, and without it the old database is
 * refused. The database keeps its name until the new one replaces it.
 */
function keepOld(file: string, kept: string): void {
  if (existsSync(`${file}-wal`)) renameSync(`${file}-wal`, `${kept}-wal`);
  rmSync(`${file}-shm`, { force: true });
  if (existsSync(ledgerPath(file))) linkSync(ledgerPath(file), ledgerPath(kept));
  if (existsSync(file)) linkSync(file, kept);
}
