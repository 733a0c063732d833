/**
 * Key expiry: removes idempotency keys 24 hours after their task has ended. The end of a task does
 * not touch its key: keys are random, so each would add a page or two to the write-ahead log. The
 * sweep reads the ended tasks in the order of their end instead, from where it stopped.
 */
import { KEY_RETENTION_MS } from "../../../model/store.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";

/** Identifies the key of an ended task. `key` is null if the task has none. */
export interface EndedKey {
  readonly tenantId: string;
  readonly taskId: string;
  readonly key: string | null;
  readonly finishedAt: number;
}

export interface KeyExpiry {
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

export function keyExpiry(sql: Sql): KeyExpiry {
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
