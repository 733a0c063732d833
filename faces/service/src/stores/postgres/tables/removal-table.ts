/** Removal table: removes old tasks and keys, dead letters, and rows that nothing uses. */
import { GUARD_DOCUMENT } from "../../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../../model/store.ts";
import type { Rows, Run, Sql } from "../connection/sql.ts";
import { followDays } from "../write/attempt-days.ts";
import { cursorText, cursorTexts } from "./cursors.ts";

const SWEEP = "SELECT redrive.sweep_tasks($1, $2, $3, $4)";
const DISCARD = "SELECT redrive.discard_tasks($1, $2)";
const DESTINATIONS = "SELECT removed, last_id FROM redrive.remove_unused_destinations($1, $2)";
const NODES = "SELECT redrive.remove_unused_nodes()";

/** A burst is complete again after this time, so a row without tokens is like a new one. */
const UNUSED_MS = 3_600_000;

/** Guard state of destinations that do not exist: the examined rows, and whether each was removed. */
const GUARDS = `WITH page AS MATERIALIZED (
    SELECT tenant_id, id FROM redrive.documents WHERE kind = $1 AND (tenant_id, id) > ($2, $3)
    ORDER BY tenant_id, id LIMIT $4
  ), gone AS (
    DELETE FROM redrive.documents d USING page p
    WHERE d.kind = $1 AND d.tenant_id = p.tenant_id AND d.id = p.id AND NOT EXISTS (
      SELECT FROM redrive.destinations x WHERE x.tenant_id = p.tenant_id AND x.name = p.id)
    RETURNING d.tenant_id, d.id)
  SELECT p.tenant_id, p.id, g.id IS NOT NULL FROM page p
  LEFT JOIN gone g ON g.tenant_id = p.tenant_id AND g.id = p.id ORDER BY p.tenant_id, p.id`;

/** Limits that no node has a share of, and whose reserved tokens are in the past. */
const LIMITS = `WITH page AS MATERIALIZED (
    SELECT tenant_id, name FROM redrive.limits WHERE (tenant_id, name) > ($1, $2)
    ORDER BY tenant_id, name LIMIT $3
  ), gone AS (
    DELETE FROM redrive.limits l USING page p WHERE l.tenant_id = p.tenant_id AND l.name = p.name
      AND greatest(l.next_token_at, l.next_retry_token_at) < redrive.clock_ms() - ${UNUSED_MS}
      AND NOT EXISTS (SELECT FROM redrive.shares s
        WHERE s.tenant_id = p.tenant_id AND s.name = p.name)
    RETURNING l.tenant_id, l.name)
  SELECT p.tenant_id, p.name, g.name IS NOT NULL FROM page p
  LEFT JOIN gone g ON g.tenant_id = p.tenant_id AND g.name = p.name ORDER BY p.tenant_id, p.name`;

export function removalTable(sql: Sql): Pick<Store, "sweep" | "removeUnused" | "discard"> {
  const { run } = sql;
  return {
    async sweep({ now, endedBefore, deadBefore, limit }) {
      const [row] = await run(SWEEP, [now, endedBefore, deadBefore, limit]);
      await followDays(sql, now, endedBefore);
      return Number(row?.[0]);
    },
    removeUnused: (query) => removeUnused(run, query),
    async discard(tenantId, taskIds) {
      const [row] = await run(DISCARD, [tenantId, taskIds]);
      return Number(row?.[0]);
    },
  };
}

/** First the destinations, then the guard state of those that are gone, then nodes and limits. */
async function removeUnused(run: Run, { limit, cursor }: UnusedQuery): Promise<UnusedPage> {
  const [part = "destinations", ...position] = cursorTexts(cursor);
  if (part === "destinations") return removeDestinations(run, Number(position[0] ?? 0), limit);
  if (part === "guards") {
    const [tenantId = "", id = ""] = position;
    return removePage(
      await run(GUARDS, [GUARD_DOCUMENT, tenantId, id, limit]),
      limit,
      part,
      "nodes",
    );
  }
  if (part === "limits") {
    const [tenantId = "", name = ""] = position;
    return removePage(await run(LIMITS, [tenantId, name, limit]), limit, part, null);
  }
  const [row] = await run(NODES);
  return { removed: Number(row?.[0]), cursor: cursorText(["limits"]) };
}

async function removeDestinations(run: Run, after: number, limit: number): Promise<UnusedPage> {
  const [row] = await run(DESTINATIONS, [after, limit]);
  const [removed, lastId = null] = row ?? [];
  const next = lastId === null ? ["guards"] : ["destinations", String(lastId)];
  return { removed: Number(removed), cursor: cursorText(next) };
}

/** The rows of a page: two texts that are its position, and whether the row was removed. */
function removePage(rows: Rows, limit: number, part: string, next: string | null): UnusedPage {
  const removed = rows.filter(([, , isGone]) => isGone === true).length;
  const last = rows.length < limit ? undefined : rows.at(-1);
  if (last !== undefined) return { removed, cursor: cursorText([part, ...last.slice(0, 2)]) };
  return { removed, cursor: next === null ? null : cursorText([next]) };
}
