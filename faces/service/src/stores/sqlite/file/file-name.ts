/**
 * File name: the one name under which a database file is used. SQLite finds the log of a database by
 * name, and Redrive the lock and the ledger. Links are resolved, so that every name leads to the same
 * log, lock and ledger.
 */
import { lstatSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { quote, RedriveError } from "@redrive/core";

/** As in Linux. */
const MAX_LINKS = 40;

/** The absolute path without symbolic links. The file and its folder need not exist. */
export function realFile(name: string): string {
  if (name === ":memory:") {
    const fix = "use memory: for a store in memory";
    throw new RedriveError("INVALID_ARGUMENT", `store must be a file, got ${quote(name)}: ${fix}`);
  }
  return resolveLinks(resolve(name), MAX_LINKS);
}

function resolveLinks(path: string, left: number): string {
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return realpathSync(path);
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  const folder = dirname(path);
  if (isLink && left > 0) return resolveLinks(resolve(folder, readlinkSync(path)), left - 1);
  return folder === path ? path : join(resolveLinks(folder, left), basename(path));
}

/**
 * A second name (hard link) has a log of its own, so a process that used it would miss tasks and
 * damage the file.
 */
export function assertOneName(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  const names = found?.isFile() ? found.nlink : 1;
  if (names === 1) return;
  const why = "SQLite finds the log of a file by name, so a second name loses tasks";
  const fix = "remove the other names, or copy the file instead (one process per file)";
  throw new RedriveError("STORE_IN_USE", `${path} has ${names} names (hard links): ${why}; ${fix}`);
}
