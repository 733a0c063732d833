/**
 * SQLite store: the default, for one machine. One process per file, one transaction per batch,
 * fsynced before any result is returned.
 */
import { closeSync, openSync } from "node:fs";
import { systemClock } from "@redrive/core";
import type { Batch, CommitResult } from "../../model/batch.ts";
import type { MovableStore } from "../../model/transfer.ts";
import { DestinationTable } from "./destination-table.ts";
import { documentTable, documentWriter } from "./document-table.ts";
import { dueTable } from "./due-table.ts";
import {
  type BatchSize,
  type Checkpointer,
  createCheckpointer,
  openLogSync,
  reserveLog,
} from "./file/checkpointer.ts";
import { openFile } from "./file/open.ts";
import { createSql, type Sql } from "./file/sql.ts";
import { nodeTable } from "./node-table.ts";
import { PolicyTable } from "./policy-table.ts";
import { ReadQueue } from "./read-queue.ts";
import { createReader } from "./reader.ts";
import { sqliteQuery } from "./sqlite-query.ts";
import { sqliteTransfer } from "./sqlite-transfer.ts";
import { discarder, sweeper, unusedRows } from "./sweeper.ts";
import { batchWriter, syncedCommit } from "./writer.ts";

export interface SqliteOptions {
  /**
   * For a service: reserves space for the log, writes the ledger at the end of the turn, and syncs larger
   * commits on a thread of Node's pool, so that the event loop waits less for the disk. A commit then
   * takes turns of the event loop, which a virtual clock does not wait for. Default: false.
   */
  readonly lowLatency?: boolean;
}

/**
 * Opens or creates the file. Throws if it is in use, foreign, newer than this version, or damaged.
 */
export function sqliteStore(name: string, options: SqliteOptions = {}): MovableStore {
  const opened = openFile(name);
  const { file } = opened;
  if (options.lowLatency === true) {
    reserveLog(file);
    opened.ledger.deferWrites(systemClock);
  }
  const sql = createSql(opened.database, file, opened.ledger);
  // The engine's own pages never wait for a user's list.
  const pages = createReader(file);
  const writeDocument = documentWriter(sql);
  const destinations = new DestinationTable(sql);
  const undo = () => destinations.undo();
  const policies = new PolicyTable(sql);
  const write = batchWriter(sql, destinations, writeDocument, (task) => policies.has(task));
  const sweep = sweeper(sql, destinations);
  const removeUnused = unusedRows(sql, destinations);
  const reads = new ReadQueue(createReader(file));
  // Closed last: closing any descriptor of a file drops SQLite's locks on it.
  const descriptor = openSync(file, "r+");
  const checkpointer = checkpointerOf(sql, descriptor);
  const logSync = options.lowLatency === true ? openLogSync(file) : undefined;
  const commit = syncedCommit(sql, write, undo, logSync);
  let closed = false;

  return {
    exclusive: true,
    partitions: 1,
    clock: async () => systemClock.now(),
    onWakeUp: () => ({ follow: () => {}, stop: () => {} }),
    async commit(batch) {
      const result = await commit(batch);
      checkpointer.committed(sizeOf(batch, result));
      return result;
    },
    ...dueTable(sql, pages),
    ...nodeTable(sql, destinations),
    ...policies.methods(pages),
    getDestination: async (tenantId, name) => sql.read(() => destinations.row(tenantId, name)),
    openCircuits: async (tenantId, limit) =>
      sql.read(() => destinations.openCircuits(tenantId, limit)),
    async sweep(retention) {
      const items = await sweep(retention);
      checkpointer.committed({ items, bytes: 0 });
      return items;
    },
    async removeUnused(query) {
      const page = await removeUnused(query);
      checkpointer.committed({ items: page.removed, bytes: 0 });
      return page;
    },
    discard: discarder(sql, destinations),
    query: sqliteQuery(sql, reads, pages),
    documents: documentTable(sql, pages),
    transfer: sqliteTransfer(sql, pages, destinations, (size) => checkpointer.committed(size)),
    async close() {
      if (closed) return;
      closed = true;
      await reads.close();
      await pages.close();
      await checkpointer.close();
      await logSync?.close();
      opened.close();
      closeSync(descriptor);
    },
  };
}

/** What a batch writes: rows, and the bytes of bodies. */
function sizeOf(batch: Batch, { claims }: CommitResult): BatchSize {
  const { creates, settles, cancels, documents } = batch;
  let items = creates.length + settles.length + cancels.length + documents.length;
  let bytes = 0;
  for (const { tasks } of claims) items += tasks.length;
  for (const { task } of creates) bytes += task.body?.length ?? 0;
  return { items, bytes };
}

/** The next use of the store reports a failure of the checkpoint. */
function checkpointerOf(sql: Sql, descriptor: number): Checkpointer {
  const copy = sql.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  const copyRest = () => {
    try {
      sql.read(() => copy.get());
    } catch {
      // The next use of the store reports it if it matters.
    }
  };
  const failed = (error: Error) => sql.fail(error);
  return createCheckpointer({ file: sql.file, descriptor, copyRest, failed });
}
