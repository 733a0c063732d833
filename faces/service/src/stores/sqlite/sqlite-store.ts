/**
 * SQLite store: the default, for one machine. One process per file, one transaction per batch,
 * fsynced before any result is returned.
 */

import type { Batch, CommitResult } from "../../model/batch.ts";
import type { LaneDue, PolicyRow, Retention, Store } from "../../model/store.ts";
import { type BatchSize, type Checkpointer, createCheckpointer } from "./checkpointer.ts";
import { type Cell, IN_FLIGHT, laneName, PENDING, statusName } from "./codec.ts";
import { DestinationTable } from "./destination-table.ts";
import { discarder } from "./discard.ts";
import { documentTable, documentWriter } from "./document-table.ts";
import { openFile } from "./open.ts";
import { createReader } from "./reader.ts";
import { ANY_LIMIT, createSql, type Database, type Sql } from "./sql.ts";
import { sqliteQuery } from "./sqlite-query.ts";
import { STARTED_CELLS, STARTED_COLUMNS, startedOf } from "./task-rows.ts";
import { batchWriter } from "./writer.ts";

/**
 * Opens or creates the file. Throws if it is in use, foreign, newer than this version, or damaged.
 */
export function sqliteStore(file: string): Store {
  const { database, lock } = openFile(file);
  const sql = createSql(database, file);
  const writeDocument = documentWriter(sql);
  const destinations = new DestinationTable(sql);
  const reload = () => destinations.load();
  const write = batchWriter(sql, destinations, writeDocument);
  const reader = createReader(file);
  const checkpointer = checkpointerOf(sql);
  let closed = false;

  return {
    exclusive: true,
    async commit(batch) {
      const result = sql.transaction(() => write(batch), reload);
      checkpointer.committed(sizeOf(batch, result));
      return result;
    },
    ...dueTable(sql, destinations),
    ...nodeTable(sql, destinations),
    ...policyTable(sql),
    getDestination: async (tenantId, name) => destinations.row(tenantId, name),
    listDestinations: async (tenantId) => destinations.list(tenantId),
    sweep: sweeper(sql, destinations),
    discard: discarder(sql, destinations),
    query: sqliteQuery(sql, reader),
    documents: documentTable(sql),
    async close() {
      if (closed) return;
      closed = true;
      await reader.close();
      await checkpointer.close();
      tidyLog(database);
      database.close();
      lock.close();
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
function checkpointerOf(sql: Sql): Checkpointer {
  const move = sql.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  const checkpointRest = () => {
    try {
      sql.read(() => move.get());
    } catch {
      // The next use of the store reports it if it matters.
    }
  };
  return createCheckpointer({ file: sql.file, checkpointRest, failed: (error) => sql.fail(error) });
}

/** Leaves a single file behind. Best effort: the next open does the rest. */
function tidyLog(database: Database): void {
  try {
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } catch {
    // The next open replays the log.
  }
}

/** One index lookup per lane: the cost grows with destinations, not with waiting tasks. */
function dueTable(sql: Sql, destinations: DestinationTable): Pick<Store, "nextDue"> {
  const select = sql.prepare(`
    SELECT d.destination_id, lanes.column1, (
      SELECT next_attempt_at FROM tasks t
      WHERE t.destination_id = d.destination_id AND t.lane = lanes.column1 AND t.status = 0
      ORDER BY t.next_attempt_at LIMIT 1) AS due_at
    FROM destinations d, (VALUES (0), (1), (2)) AS lanes WHERE due_at IS NOT NULL`);
  return {
    async nextDue() {
      const rows = sql.read(() => select.all()) as unknown as readonly number[][];
      return rows.map(([id, lane, dueAt]): LaneDue => {
        const { tenantId, name } = destinations.byId(id as number).row;
        return {
          tenantId,
          destination: name,
          lane: laneName(lane as number),
          dueAt: dueAt as number,
        };
      });
    },
  };
}

type NodeTable = Pick<Store, "lapsed" | "claimsOf" | "renew" | "retire" | "latestAt">;

function nodeTable(sql: Sql, destinations: DestinationTable): NodeTable {
  const reload = () => destinations.load();
  const claimed = (condition: string) =>
    sql.prepare(`SELECT ${STARTED_COLUMNS}, t.destination_id
      FROM tasks t JOIN payloads p ON p.ref = t.ref
      WHERE t.status = 1 AND ${condition} LIMIT ${ANY_LIMIT}`);
  const ofOthers = claimed("t.claimed_by <> ?");
  const ofNode = claimed("t.claimed_by = ?");
  const lease = sql.prepare("UPDATE nodes SET lease_until = ? WHERE node_number = ?");
  const setNow = sql.prepare(`INSERT INTO meta VALUES ('now', ?)
    ON CONFLICT DO UPDATE SET value = max(value, excluded.value)`);
  const getNow = sql.prepare(`SELECT max(
    ifnull((SELECT value FROM meta WHERE name = 'now'), 0),
    ifnull((SELECT created_at FROM payloads ORDER BY ref DESC LIMIT 1), 0))`);

  const started = (rows: unknown) =>
    (rows as readonly Cell[][]).map((cells) => {
      const { tenantId, name } = destinations.byId(cells[STARTED_CELLS] as number).row;
      return startedOf(cells, { tenantId, destination: name }, null);
    });
  const setLease = (nodeId: string, until: number) =>
    lease.run(until, destinations.nodeNumber(nodeId));

  return {
    lapsed: async ({ nodeId, limit }) =>
      sql.transaction(() => started(ofOthers.all(destinations.nodeNumber(nodeId), limit)), reload),
    claimsOf: async (nodeId, limit) =>
      sql.transaction(() => started(ofNode.all(destinations.nodeNumber(nodeId), limit)), reload),
    async renew({ nodeId, now, leaseUntil }) {
      sql.transaction(() => {
        setLease(nodeId, leaseUntil);
        setNow.run(now);
      }, reload);
    },
    async retire(nodeId) {
      sql.transaction(() => setLease(nodeId, 0), reload);
    },
    async latestAt() {
      const row = sql.read(() => getNow.get()) as unknown as readonly number[];
      return row[0] ?? 0;
    },
  };
}

type PolicyTable = Pick<Store, "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy">;

function policyTable(sql: Sql): PolicyTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO policies VALUES (?, ?, ?, ?, ?)");
  const select = sql.prepare(`SELECT tenant_id, policy_id, version, document, created_at
    FROM policies WHERE tenant_id = ? AND policy_id = ? AND version = ifnull(?, version)
    ORDER BY version DESC LIMIT 1`);
  const selectAll = sql.prepare(`SELECT tenant_id, policy_id, max(version), document, created_at
    FROM policies WHERE tenant_id = ? GROUP BY policy_id ORDER BY policy_id`);
  const remove = sql.prepare(`DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2
    AND NOT EXISTS (SELECT 1 FROM tasks t JOIN payloads p ON p.ref = t.ref
      WHERE t.status IN (${PENDING}, ${IN_FLIGHT}) AND t.tenant_id = ?1 AND p.policy_id = ?2)`);
  return {
    addPolicy: async (policy) =>
      sql.transaction(() => {
        const { tenantId, policyId, version, document, createdAt } = policy;
        return insert.run(tenantId, policyId, version, document, createdAt).changes > 0;
      }),
    async getPolicy(tenantId, policyId, version) {
      const cells = sql.read(() => select.get(tenantId, policyId, version ?? null));
      return cells === undefined ? null : policyOf(cells as unknown as readonly Cell[]);
    },
    async listPolicies(tenantId) {
      return (sql.read(() => selectAll.all(tenantId)) as unknown as Cell[][]).map(policyOf);
    },
    removePolicy: async (tenantId, policyId) =>
      sql.transaction(() => remove.run(tenantId, policyId).changes > 0),
  };
}

function policyOf(cells: readonly Cell[]): PolicyRow {
  const [tenantId, policyId, version, document, createdAt] = cells;
  return { tenantId, policyId, version, document, createdAt } as PolicyRow;
}

/** In small slices, so that it does not block other work. */
function sweeper(sql: Sql, destinations: DestinationTable): Store["sweep"] {
  const old = sql.prepare(`SELECT ref, destination_id FROM tasks
    WHERE status = ? AND finished_at < ? ORDER BY finished_at LIMIT ${ANY_LIMIT}`);
  const removals = [
    "DELETE FROM attempts WHERE ref = ?",
    "DELETE FROM payloads WHERE ref = ?",
    "DELETE FROM tasks WHERE ref = ?",
  ].map((text) => sql.prepare(text));
  const removeKeys = sql.prepare(`DELETE FROM idempotency_keys WHERE (tenant_id, idempotency_key) IN
    (SELECT tenant_id, idempotency_key FROM idempotency_keys WHERE expires_at <= ? LIMIT ${ANY_LIMIT})`);

  function removeEnded(status: number, before: number, limit: number): number {
    const found = old.all(status, before, limit) as unknown as readonly number[][];
    for (const [ref = 0, id = 0] of found) {
      for (const statement of removals) statement.run(ref);
      destinations.tally(destinations.byId(id), statusName(status), null);
    }
    return found.length;
  }

  const reload = () => destinations.load();
  return async ({ now, endedBefore, deadBefore, limit }: Retention) =>
    sql.transaction(() => {
      let removed = 0;
      for (const status of [2, 3, 4]) {
        removed += removeEnded(status, status === 3 ? deadBefore : endedBefore, limit - removed);
      }
      destinations.flush();
      return removed + Number(removeKeys.run(now, limit - removed).changes);
    }, reload);
}
