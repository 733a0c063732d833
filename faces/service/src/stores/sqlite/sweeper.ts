/**
 * Sweeper: removes tasks and keys whose retention is over.
 */

import { CIRCUIT_KEPT_MS } from "../../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../../model/document-table.ts";
import {
  KEY_RETENTION_MS,
  type Retention,
  type Store,
  type UnusedPage,
  type UnusedQuery,
} from "../../model/store.ts";
import type { DestinationTable } from "./destination-table.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import { type Cell, statusName } from "./rows.ts";

type IsOver = () => boolean;

const NEVER: IsOver = () => false;

type OldCells = readonly [number, number, number, string, string, string | null];

/**
 * In small slices, so that it does not block other work, and without an fsync: what a power cut
 * brings back is removed again.
 */
export function sweeper(sql: Sql, destinations: DestinationTable): Store["sweep"] {
  const old = sql.prepare(`SELECT t.ref, t.destination_id, t.finished_at, t.tenant_id, t.task_id,
    p.idempotency_key FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.status = ? AND t.finished_at < ? ORDER BY t.finished_at LIMIT ${ANY_LIMIT}`);
  const removals = [
    "DELETE FROM attempts WHERE ref = ?",
    "DELETE FROM payloads WHERE ref = ?",
    "DELETE FROM tasks WHERE ref = ?",
  ].map((text) => sql.prepare(text));
  const keys = keyExpiry(sql);

  function removeEnded(status: number, before: number, limit: number, isOver: IsOver): number {
    if (limit <= 0) return 0;
    const found = old.all(status, before, limit) as unknown as readonly OldCells[];
    let removed = 0;
    for (const [ref, id, finishedAt, tenantId, taskId, key] of found) {
      for (const statement of removals) statement.get(ref);
      destinations.tally(destinations.byId(id), statusName(status), null);
      keys.taskRemoved({ tenantId, taskId, key, finishedAt });
      removed++;
      if (isOver()) break;
    }
    return removed;
  }

  const undo = () => destinations.undo();
  return async ({ now, endedBefore, deadBefore, limit, isOver = NEVER }: Retention) =>
    sql.unsyncedTransaction(() => {
      let removed = 0;
      for (const status of [2, 3, 4]) {
        const before = status === 3 ? deadBefore : endedBefore;
        removed += removeEnded(status, before, limit - removed, isOver);
        if (isOver()) break;
      }
      destinations.flush();
      return isOver() ? removed : removed + keys.sweep(now, limit - removed);
    }, undo);
}

// Key expiry: removes idempotency keys 24 hours after their task has ended. The end of a task does
// not touch its key: keys are random, so each would add a page or two to the write-ahead log. The
// sweep reads the ended tasks in the order of their end instead, from where it stopped.

/** Identifies the key of an ended task. `key` is null if the task has none. */
interface EndedKey {
  readonly tenantId: string;
  readonly taskId: string;
  readonly key: string | null;
  readonly finishedAt: number;
}

interface KeyExpiry {
  /**
   * Removes keys whose retention is over. Visits at most `limit` tasks and keys. Returns how many
   * keys it removed, or `limit` if more tasks may be left to visit.
   */
  sweep(now: number, limit: number): number;
  /** Call when the row of an ended task is removed; its key may have to stay. */
  taskRemoved(ended: EndedKey): void;
}

/** The states of ended tasks. */
const ENDED = [2, 3, 4] as const;

interface Visit {
  readonly visited: number;
  readonly removed: number;
}

type EndedCells = readonly [number, number, string, string, string | null];

function keyExpiry(sql: Sql): KeyExpiry {
  const anyKey = sql.prepare("SELECT 1 FROM idempotency_keys LIMIT 1");
  const position = sql.prepare("SELECT finished_at, ref FROM key_sweeps WHERE status = ?");
  const advance = sql.prepare("INSERT OR REPLACE INTO key_sweeps VALUES (?, ?, ?)");
  const ended = sql.prepare(`SELECT t.finished_at, t.ref, t.tenant_id, t.task_id, p.idempotency_key
    FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.status = ? AND t.finished_at >= ? AND t.finished_at <= ?
      AND (t.finished_at, t.ref) > (?, ?)
    ORDER BY t.finished_at, t.ref LIMIT ${ANY_LIMIT}`);
  const remove = sql.prepare(`DELETE FROM idempotency_keys
    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?`);
  const keep = sql.prepare(`UPDATE idempotency_keys SET expires_at = ?
    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?`);
  const removeExpired = sql.prepare(`DELETE FROM idempotency_keys
    WHERE (tenant_id, idempotency_key) IN (SELECT tenant_id, idempotency_key
      FROM idempotency_keys WHERE expires_at <= ? LIMIT ${ANY_LIMIT})`);

  /** Visits ended tasks of one state, from the stored position on. */
  function visitEnded(status: number, until: number, limit: number): Visit {
    let removed = 0;
    const [at, ref] = position.get(status) as unknown as readonly [number, number];
    const rows = ended.all(status, at, until, at, ref, limit) as unknown as readonly EndedCells[];
    for (const [, , tenantId, taskId, key] of rows) {
      if (key !== null) removed += Number(remove.run(tenantId, key, taskId).changes);
    }
    const last = rows.at(-1);
    if (last !== undefined) advance.run(status, last[0], last[1]);
    return { visited: rows.length, removed };
  }

  return {
    sweep(now, limit) {
      if (limit <= 0 || anyKey.get() === undefined) return 0;
      const until = now - KEY_RETENTION_MS;
      let left = limit;
      let removed = 0;
      for (const status of ENDED) {
        const visit = visitEnded(status, until, left);
        left -= visit.visited;
        removed += visit.removed;
        if (left === 0) return limit;
      }
      return removed + Number(removeExpired.run(now, left).changes);
    },
    taskRemoved({ tenantId, taskId, key, finishedAt }) {
      if (key !== null) keep.run(finishedAt + KEY_RETENTION_MS, tenantId, key, taskId);
    },
  };
}

// Discard: removes dead letters with their payloads and attempts, and updates the counts.

const DELETES = ["attempts", "payloads", "tasks"].map(
  (table) => `DELETE FROM ${table} WHERE ref = ?`,
);

type DeadCells = readonly [number, number, number, string | null];

export function discarder(sql: Sql, destinations: DestinationTable): Store["discard"] {
  const select = sql.prepare(`SELECT t.ref, t.destination_id, t.finished_at, p.idempotency_key
    FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.status = 3 AND t.tenant_id = ? AND t.task_id = ?`);
  const keys = keyExpiry(sql);
  const deletes = DELETES.map((text) => sql.prepare(text));

  function remove(tenantId: string, taskId: string): number {
    const found = select.get(tenantId, taskId) as unknown as DeadCells | undefined;
    if (found === undefined) return 0;
    const [ref, id, finishedAt, key] = found;
    for (const statement of deletes) statement.run(ref);
    keys.taskRemoved({ tenantId, taskId, key, finishedAt });
    destinations.tally(destinations.byId(id), "EXHAUSTED", null);
    return 1;
  }

  return async (tenantId, taskIds) =>
    sql.transaction(
      () => {
        const removed = taskIds.reduce((sum, taskId) => sum + remove(tenantId, taskId), 0);
        destinations.flush();
        return removed;
      },
      () => destinations.undo(),
    );
}

// Unused rows: removes counts of zero, destinations that nothing uses, saved guard state of
// destinations that do not exist, and nodes that are gone. A call examines a bounded range of rows;
// three ranges follow each other: destinations, then guard state, then nodes.

/** Removes what is unused in one range. The first cell of a cursor names the kind of its range. */
type RemoveRange = (query: UnusedQuery, after: readonly Cell[]) => UnusedPage;

export function unusedRows(sql: Sql, destinations: DestinationTable): Store["removeUnused"] {
  const ranges: Readonly<Record<string, RemoveRange>> = {
    destinations: destinationRange(sql, destinations),
    guards: guardRange(sql),
    nodes: nodeRange(sql, destinations),
  };
  return async (query) => {
    const [kind, ...after] = JSON.parse(query.cursor ?? '["destinations",0]') as [
      string,
      ...Cell[],
    ];
    const remove = ranges[kind];
    if (remove === undefined) throw new Error(`the cursor ${query.cursor} is of another store`);
    return sql.unsyncedTransaction(
      () => remove(query, after),
      () => destinations.undo(),
    );
  };
}

const at = (...position: readonly (Cell | undefined)[]) => JSON.stringify(position);

function destinationRange(sql: Sql, destinations: DestinationTable): RemoveRange {
  const select = sql.prepare(`
    WITH page AS MATERIALIZED (
      SELECT * FROM destinations WHERE destination_id > ?1 ORDER BY destination_id LIMIT (?2 + 0))
    SELECT destination_id,
      EXISTS (SELECT 1 FROM counts c WHERE c.destination_id = page.destination_id AND c.count = 0),
      document IS NULL AND paused_at IS NULL AND gate_until <= ?3
        AND (breaker_state = 'CLOSED' OR open_until + ${CIRCUIT_KEPT_MS} <= ?3)
        AND NOT EXISTS (
          SELECT 1 FROM counts c WHERE c.destination_id = page.destination_id AND c.count <> 0)
    FROM page`);
  const removeZeros = sql.prepare("DELETE FROM counts WHERE destination_id = ? AND count = 0");
  const remove = sql.prepare("DELETE FROM destinations WHERE destination_id = ?");

  return ({ now, limit }, [afterId = 0]) => {
    const rows = select.all(afterId, limit, now) as unknown as readonly number[][];
    let removed = 0;
    for (const [id = 0, hasZeros, isUnused] of rows) {
      if (hasZeros) removed += Number(removeZeros.run(id).changes);
      if (!isUnused) continue;
      // The cache may hold it under its name.
      destinations.forget(destinations.byId(id));
      removed += Number(remove.run(id).changes);
    }
    const last = rows.at(-1)?.[0];
    return {
      removed,
      cursor: rows.length < limit ? at("guards", "", "") : at("destinations", last),
    };
  };
}

function guardRange(sql: Sql): RemoveRange {
  const select = sql.prepare(`
    WITH page AS MATERIALIZED (
      SELECT tenant_id, id FROM documents WHERE kind = '${GUARD_DOCUMENT}'
        AND (tenant_id, id) > (?, ?) ORDER BY tenant_id, id LIMIT ${ANY_LIMIT})
    SELECT tenant_id, id, NOT EXISTS (
      SELECT 1 FROM destinations d WHERE d.tenant_id = page.tenant_id AND d.name = page.id)
    FROM page`);
  const remove = sql.prepare(
    `DELETE FROM documents WHERE kind = '${GUARD_DOCUMENT}' AND tenant_id = ? AND id = ?`,
  );
  return ({ limit }, [afterTenant = "", afterId = ""]) => {
    const rows = select.all(afterTenant, afterId, limit) as unknown as readonly Cell[][];
    const orphans = rows.filter(([, , isOrphan]) => isOrphan === 1);
    for (const [tenantId = "", id = ""] of orphans) remove.run(tenantId, id);
    const [tenantId, id] = rows.at(-1) ?? [];
    const cursor = rows.length < limit ? at("nodes", 0) : at("guards", tenantId, id);
    return { removed: orphans.length, cursor };
  };
}

/** A node that is alive renews its lease. A claim names its node until it is settled. */
function nodeRange(sql: Sql, destinations: DestinationTable): RemoveRange {
  const select = sql.prepare(`
    WITH page AS MATERIALIZED (
      SELECT * FROM nodes WHERE node_number > ? ORDER BY node_number LIMIT ${ANY_LIMIT})
    SELECT node_number, node_id, lease_until <= ? AND NOT EXISTS (
      SELECT 1 FROM tasks t WHERE t.status = 1 AND t.claimed_by = page.node_number)
    FROM page`);
  const remove = sql.prepare("DELETE FROM nodes WHERE node_number = ?");
  return ({ now, limit }, [afterNumber = 0]) => {
    const rows = select.all(afterNumber, limit, now) as unknown as readonly Cell[][];
    const gone = rows.filter(([, , isGone]) => isGone === 1);
    for (const [number = 0, nodeId = ""] of gone) {
      remove.run(number);
      destinations.forgetNode(nodeId as string);
    }
    const cursor = rows.length < limit ? null : at("nodes", rows.at(-1)?.[0]);
    return { removed: gone.length, cursor };
  };
}
