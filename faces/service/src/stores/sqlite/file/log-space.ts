/**
 * Log space: reserves space for the write-ahead log when a service opens a file. An fsync of a file that
 * has grown must also write the file's new size and block map, which takes about half as long
 * again. A log that is as large as it ever gets is only overwritten.
 */
import { closeSync, fdatasync, fstatSync, openSync, writeSync } from "node:fs";
import { CHECKPOINT_PAGES } from "./checkpointer.ts";

/** A page of the log: a page of the database and its header. */
const LOG_PAGE_BYTES = 4096 + 24;

/** The log grows beyond the threshold while the checkpoint runs. */
export const RESERVED_BYTES = 2 * CHECKPOINT_PAGES * LOG_PAGE_BYTES;

/**
 * Appends zeros, which SQLite ignores: a page of the log counts only with a valid checksum. Best
 * effort: on a full disk the log grows with the commits, as it would without this. No lock is lost,
 * because SQLite locks other files than the log. Call it while nobody writes.
 */
export function reserveLog(file: string): void {
  try {
    const log = openSync(`${file}-wal`, "r+");
    const { size } = fstatSync(log);
    const missing = RESERVED_BYTES - size;
    if (missing > 0) writeSync(log, new Uint8Array(missing), 0, missing, size);
    fdatasync(log, () => closeSync(log));
  } catch {
    // Without the space, commits are slower and nothing else changes.
  }
}
