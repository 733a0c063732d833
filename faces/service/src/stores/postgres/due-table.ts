/** Due table: finds the lanes that are due, and the claims of nodes. */
import type { StartedTask } from "../../model/batch.ts";
import type { LaneDue } from "../../model/lane-due.ts";
import type { DuePage, Store } from "../../model/store.ts";
import type { Rows, Sql } from "./connection/sql.ts";
import { claimJson, laneName, startedOf } from "./schema/rows.ts";

const DUE_LANES = `SELECT l.partition, l.lane, l.due_at, d.tenant_id, d.name, l.last_ref
  FROM redrive_functions.due_lanes($1, $2, $3, $4, $5, $6, $7) l
  LEFT JOIN redrive.destinations d ON d.destination_id = l.destination_id`;

const CLAIM = `${claimJson("c")}, t.body, c.claimed_by`;
const WITH_TASK = "JOIN redrive.tasks t ON t.tenant_id = c.tenant_id AND t.task_id = c.task_id";

/** Claims have no index by node: they are few, and are read only after a node has lapsed. */
const LAPSED = `SELECT ${CLAIM} FROM unnest(redrive_functions.lapsed_nodes($1)) lapsed (node_id)
  JOIN redrive.claimed_tasks c ON c.claimed_by = lapsed.node_id AND c.partition = ANY ($2)
  ${WITH_TASK} LIMIT $3`;

const CLAIMS_OF = `SELECT ${CLAIM} FROM redrive.claimed_tasks c ${WITH_TASK}
  WHERE c.claimed_by = $1 LIMIT $2`;

export function dueTable({ run }: Sql): Pick<Store, "dueLanes" | "lapsed" | "claimsOf"> {
  return {
    async dueLanes({ partitions, from, before, limit, cursor }) {
      const fromAt = Number.isFinite(from) ? from : 0;
      const after = cursor?.split(" ").map(Number) ?? [-1, 0, 0];
      return pageOf(await run(DUE_LANES, [partitions, fromAt, before, ...after, limit]));
    },
    async lapsed({ nodeId, partitions, limit }) {
      return claimsOf(await run(LAPSED, [nodeId, partitions, limit]));
    },
    async claimsOf(nodeId, limit) {
      return claimsOf(await run(CLAIMS_OF, [nodeId, limit]));
    },
  };
}

/** A row without a lane says that there are more tasks, and where. */
function pageOf(rows: Rows): DuePage {
  const lanes: LaneDue[] = [];
  let cursor: string | null = null;
  for (const [partition, lane, dueAt, tenantId, name, lastRef] of rows) {
    if (lastRef !== null) cursor = `${partition} ${dueAt} ${lastRef}`;
    else if (name !== null) {
      lanes.push({
        tenantId: tenantId as string,
        destination: name as string,
        lane: laneName(lane as number),
        partition: partition as number,
        dueAt: dueAt as number,
      });
    }
  }
  return { lanes, cursor };
}

function claimsOf(rows: Rows): readonly StartedTask[] {
  return rows.map(([json, body, claimedBy]) =>
    startedOf(json as string, (body ?? null) as Uint8Array | null, claimedBy as string),
  );
}
