/** Due table: finds the lanes that are due, and the claims of nodes. */
import type { StartedTask } from "../../../model/batch.ts";
import type { LaneDue } from "../../../model/lane-due.ts";
import type { DuePage, DueQuery, Store } from "../../../model/store.ts";
import type { Rows, Sql } from "../connection/sql.ts";
import { laneName } from "../rows/codes.ts";
import { claimJson, startedOf } from "../rows/task-rows.ts";

const NEXT_DUE = `SELECT l.partition, l.destination_id, l.lane, l.due_at, d.tenant_id, d.name
  FROM redrive.due_lanes($1, $2, $3, $4, $5) l
  JOIN redrive.destinations d ON d.destination_id = l.destination_id
  ORDER BY l.partition, l.destination_id, l.lane`;

const CLAIM = `${claimJson("c")}, t.body`;
const WITH_TASK = "JOIN redrive.tasks t ON t.tenant_id = c.tenant_id AND t.task_id = c.task_id";

/** Claims have no index by node: they are few, and are read only after a node has lapsed. */
const LAPSED = `SELECT ${CLAIM} FROM unnest(redrive.lapsed_nodes($1)) lapsed (node_id)
  JOIN redrive.claimed_tasks c ON c.claimed_by = lapsed.node_id AND c.partition = ANY ($2)
  ${WITH_TASK} LIMIT $3`;

const CLAIMS_OF = `SELECT ${CLAIM} FROM redrive.claimed_tasks c ${WITH_TASK}
  WHERE c.claimed_by = $1 LIMIT $2`;

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
  return rows.map(([json, body]) => startedOf(json as string, (body ?? null) as Uint8Array | null));
}
