/**
 * Commit: writes a batch in one transaction and returns its result once the transaction is durable.
 * SQLite syncs a small batch itself. A larger one is synced on a thread, so that the event loop of a
 * busy node does not wait for the disk.
 */
import type { Batch, CommitResult } from "../../../model/batch.ts";
import type { LogSync } from "../file/log-sync.ts";
import type { Sql } from "../file/sql.ts";

/**
 * A node with so few items per commit is not busy. Its result is earlier without two switches between
 * threads, and the event loop waits for one fsync.
 */
const MAX_SMALL_ITEMS = 32;

/**
 * Between the commit and its sync, readers may see what a power cut would undo. Nobody was told the
 * result yet, and a commit that builds on it is synced later.
 */
export function syncedCommit(
  sql: Sql,
  write: (batch: Batch) => CommitResult,
  undo: () => void,
  logSync: LogSync | undefined,
): (batch: Batch) => Promise<CommitResult> {
  return async (batch) => {
    if (logSync === undefined || isSmall(batch)) {
      return sql.transaction(() => write(batch), undo);
    }
    const { result, recordSync } = sql.laterSyncedTransaction(() => write(batch), undo);
    try {
      await logSync.sync();
    } catch (error) {
      throw sql.fail(error);
    }
    recordSync();
    return result;
  };
}

function isSmall({ creates, settles, cancels, retryNows, claims, documents }: Batch): boolean {
  let items = creates.length + settles.length + cancels.length + retryNows.length;
  for (const { limit } of claims) items += limit;
  return items + documents.length <= MAX_SMALL_ITEMS;
}
