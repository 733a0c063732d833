/**
 * Log sync: makes committed transactions durable with an fsync of the write-ahead log. It runs on a
 * thread of Node's pool, so the event loop continues meanwhile. The caller reports a result only
 * after the sync that follows its commit.
 */
import { closeSync, fdatasync, openSync } from "node:fs";

/** SQLite's code for a failed fsync. */
export const IOERR_FSYNC = 1034;

export interface LogSync {
  /**
   * Resolves once everything is durable that was committed before the call. Rejects with SQLite's
   * error for a failed fsync; then the content of the disk is unknown.
   */
  sync(): Promise<void>;
  /** Resolves once no sync runs. */
  close(): Promise<void>;
}

/**
 * The log is never replaced while the database is open, only overwritten. SQLite locks other files,
 * so closing this descriptor drops no lock.
 */
export function openLogSync(file: string): LogSync {
  const log = openSync(`${file}-wal`, "r+");
  const running = new Set<Promise<void>>();

  return {
    async sync() {
      const syncing = syncOnThread(log);
      running.add(syncing);
      try {
        await syncing;
      } finally {
        running.delete(syncing);
      }
    },
    async close() {
      await Promise.allSettled(running);
      closeSync(log);
    },
  };
}

function syncOnThread(log: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fdatasync(log, (error) => (error === null ? resolve() : reject(failedSync(error))));
  });
}

function failedSync(cause: Error): Error {
  return Object.assign(new Error(cause.message, { cause }), { errcode: IOERR_FSYNC });
}
