/**
 * Copy file: writes a consistent copy of an open database to a new file. The writer continues
 * meanwhile. The copy has its name only when it is complete, checked and on disk.
 */
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { quote, RedriveError } from "@redrive/core";
import { makePrivate } from "./file-lock.ts";
import { syncFolder } from "./ledger.ts";
import { firstValue } from "./query.ts";
import type { Database } from "./sql.ts";

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
