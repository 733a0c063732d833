/**
 * Unused rows: removes counts of zero, destinations that nothing uses, saved guard state of
 * destinations that do not exist, and nodes that are gone. A call examines a bounded range of rows;
 * three ranges follow each other: destinations, then guard state, then nodes.
 */
import { GUARD_DOCUMENT } from "../../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../../model/store.ts";
import { ANY_LIMIT, type Sql } from "../file/sql.ts";
import type { Cell } from "../rows/codec.ts";
import type { DestinationTable } from "../tables/destination-table.ts";

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
      document IS NULL AND paused_at IS NULL AND gate_until <= ?3 AND breaker_state = 'CLOSED'
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
