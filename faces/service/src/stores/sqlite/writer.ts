/**
 * Writer: writes a batch in one transaction on the main thread (a worker thread was slower). Each
 * kind of item has its own file.
 */
import type { Batch, CommitResult } from "../../model/batch.ts";
import type { UnversionedDocument } from "../../model/document-table.ts";
import type { BatchContext, OpenClaim } from "./batch-context.ts";
import {
  type ClaimWriter,
  claimWriter,
  createWriter,
  type HasPolicy,
  mayOpenEarly,
  newTaskClaims,
} from "./create-writer.ts";
import type { DestinationTable } from "./destination-table.ts";
import type { LogSync } from "./file/checkpointer.ts";
import type { Sql } from "./file/sql.ts";
import { endWriter } from "./settle-writer.ts";

export function batchWriter(
  sql: Sql,
  destinations: DestinationTable,
  writeDocument: (document: UnversionedDocument) => void,
  hasPolicy: HasPolicy,
): (batch: Batch) => CommitResult {
  const create = createWriter(sql, destinations, hasPolicy);
  const { settle, cancel, retryNow } = endWriter(sql, destinations, (tasks, context) => {
    if (tasks === undefined) return;
    for (const task of tasks) create({ task, fingerprint: null, claimVersion: null }, context);
  });
  const claimer = claimWriter(sql, destinations);

  return (batch) => {
    const context: BatchContext = {
      now: batch.now,
      nodeId: batch.nodeId,
      node: destinations.nodeNumber(batch.nodeId),
      refused: new Set(),
      newTaskClaims: undefined,
    };
    const rows = batch.destinations.map((item) => destinations.write(item, context.refused));
    const open = mayOpenEarly(batch) ? openClaims(claimer, batch, context) : undefined;
    const creates = batch.creates.map((item) => create(item, context));
    const settles = settle(batch.settles, context);
    const cancels = batch.cancels.map((item) => cancel(item, context));
    const retryNows = batch.retryNows.map((item) => retryNow(item, context.now));
    const claims = open
      ? open.map((one) => claimer.finish(one, context))
      : batch.claims.map((item) => claimer.finish(claimer.open(item, context), context));
    for (const document of batch.documents) writeDocument(document);
    destinations.flush();
    return { destinations: rows, creates, settles, cancels, retryNows, claims };
  };
}

function openClaims(claimer: ClaimWriter, batch: Batch, context: BatchContext): OpenClaim[] {
  const open = batch.claims.map((item) => claimer.open(item, context));
  context.newTaskClaims = newTaskClaims(open);
  return open;
}

// Commit: writes a batch in one transaction and returns its result once the transaction is durable.
// SQLite syncs a small batch itself. A larger one is synced on a thread, so that the event loop of a
// busy node does not wait for the disk.

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
