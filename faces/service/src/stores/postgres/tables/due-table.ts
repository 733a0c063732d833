/** Due table: finds the lanes that are due, and the claims of nodes. */
import type { StartedTask } from "../../../model/batch.ts";
import type { LaneDue } from "../../../model/lane-due.ts";
import type { DuePage, DueQuery, Store } from "../../../model/store.ts";
import type { Rows, Sql } from "../connection/sql.ts";
import { laneName } from "../rows/codes.ts";
import { CLAIM_CELLS, CLAIM_COLUMNS, type ClaimCells, startedOf } from "../rows/task-rows.ts";

const NEXT_DUE = `SELECT l.partition, l.destination_id, l.lane, l.due_at, d.tenant_id, d.name
  FROM redrive.due_lanes($1, $2, $3, $4, $5) l
  JOIN redrive.destinations d ON d.destination_id = l.destination_id
  ORDER BY l.partition, l.destination_id, l.lane`;

const CLAIMS = `SELECT ${CLAIM_COLUMNS}, p.payload, p.body
  FROM redrive.open_tasks o JOIN redrive.payloads p ON p.ref = o.ref`;

const LAPSED = `${CLAIMS} WHERE o.status = 1
  AND o.ref = ANY (ARRAY(SELECT redrive.lapsed_refs($1, $2, $3)))`;

const CLAIMS_OF = `${CLAIMS} WHERE o.status = 1 AND o.claimed_by = $1 LIMIT $2`;

export function dueTable({ run }: Sql): Pick<Store, "nextDue" | "lapsed" | "claimsOf"> {
  return {
    async nextDue(query) {
      const after = query.cursor?.split(" ").map(Number) ?? [0, 0, -1];
      const rows = await run(NEXT_DUE, [query.partitions, ...after, query.limit]);
      return pageOf(rows, query);
    },
    async lapsed({ nodeId, partitions, limit }) {
      return claimsOf(await run(LAPSED, [nodeId, partitions, limit]));
    },
    async claimsOf(nodeId, limit) {
      return claimsOf(await run(CLAIMS_OF, [nodeId, limit]));
    },
  };
}

function pageOf(rows: Rows, { before, limit }: DueQuery): DuePage {
  const lanes = rows.map(
    ([partition, , lane, dueAt, tenantId, name]): LaneDue => ({
      tenantId: tenantId as string,
      destination: name as string,
      lane: laneName(lane as number),
      partition: partition as number,
      dueAt: dueAt as number,
    }),
  );
  const last = rows.length < limit ? undefined : rows.at(-1);
  return {
    lanes: lanes.filter(({ dueAt }) => dueAt < before),
    cursor: last === undefined ? null : last.slice(0, 3).join(" "),
  };
}

function claimsOf(rows: Rows): readonly StartedTask[] {
  return rows.map((cells) => {
    const [payload = null, body = null] = cells.slice(CLAIM_CELLS);
    return startedOf(cells.slice(0, CLAIM_CELLS) as ClaimCells, payload, body);
  });
}
