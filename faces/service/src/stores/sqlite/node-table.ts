/**
 * Node table: the leases of nodes, the claims that they hold, and the latest stored instant.
 */
import type { DestinationRow } from "../../model/destination-row.ts";
import {
  type DestinationReport,
  type DestinationShare,
  NO_OTHERS,
  reserveRate,
} from "../../model/node-report.ts";
import type { Store } from "../../model/store.ts";
import type { DestinationTable } from "./destination-table.ts";
import { LATEST_AT_QUERY } from "./file/clock-repair.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import { type Cell, STARTED_CELLS, STARTED_COLUMNS, startedOf } from "./rows.ts";

type NodeTable = Pick<Store, "lapsed" | "claimsOf" | "renew" | "retire" | "latestAt">;

export function nodeTable(sql: Sql, destinations: DestinationTable): NodeTable {
  const undo = () => destinations.undo();
  const claimed = (condition: string) =>
    sql.prepare(`SELECT ${STARTED_COLUMNS}, t.destination_id, n.node_id
      FROM tasks t JOIN payloads p ON p.ref = t.ref JOIN nodes n ON n.node_number = t.claimed_by
      WHERE t.status = 1 AND ${condition} LIMIT ${ANY_LIMIT}`);
  const ofOthers = claimed("t.claimed_by <> ?");
  const ofNode = claimed("t.claimed_by = ?");
  const lease = sql.prepare("UPDATE nodes SET lease_until = ? WHERE node_number = ?");
  const setNow = sql.prepare(`INSERT INTO meta VALUES ('now', ?)
    ON CONFLICT DO UPDATE SET value = max(value, excluded.value)`);
  const getNow = sql.prepare(LATEST_AT_QUERY);

  const started = (rows: unknown) =>
    (rows as readonly Cell[][]).map((cells) => {
      const { tenantId, name } = destinations.byId(cells[STARTED_CELLS] as number).row;
      const claimedBy = cells[STARTED_CELLS + 1] as string;
      return startedOf(cells, { tenantId, destination: name }, claimedBy, null);
    });
  const setLease = (nodeId: string, until: number) =>
    lease.run(until, destinations.nodeNumber(nodeId));

  return {
    lapsed: async ({ nodeId, limit }) =>
      sql.transaction(() => started(ofOthers.all(destinations.nodeNumber(nodeId), limit)), undo),
    claimsOf: async (nodeId, limit) =>
      sql.transaction(() => started(ofNode.all(destinations.nodeNumber(nodeId), limit)), undo),
    async renew({ nodeId, now, leaseMs, isLeaving, takesAll, destinations: reports }) {
      sql.transaction(() => {
        setLease(nodeId, now + leaseMs);
        setNow.run(now);
      }, undo);
      const shares = reports.map((report) => {
        const row = sql.read(() => destinations.row(report.tenantId, report.name));
        return wholeShare(report, row, now);
      });
      const nodes = isLeaving ? [] : [nodeId];
      const alone = { wasLapsed: false, takesAll, nodes };
      return { now, ...alone, destinations: shares };
    },
    async retire(nodeId) {
      sql.transaction(() => setLease(nodeId, 0), undo);
    },
    async latestAt() {
      const row = sql.read(() => getNow.get()) as unknown as readonly number[];
      return row[0] ?? 0;
    },
  };
}

/** No other process uses the file, so a node gets what it wants. */
function wholeShare(
  { version, slots, retrySlots, rate, retryRate }: DestinationReport,
  row: DestinationRow | null,
  now: number,
): DestinationShare {
  const granted = Math.min(slots?.wanted ?? 0, slots?.limit ?? 0);
  const maxRetries = slots === null ? Number.POSITIVE_INFINITY : granted;
  return {
    row: row === null || row.version === version ? null : row,
    slots: granted,
    retrySlots: Math.min(retrySlots?.wanted ?? 0, retrySlots?.limit ?? 0, maxRetries),
    rate: rate && reserveRate(rate, 0, now).reservation,
    retryRate: retryRate && reserveRate(retryRate, 0, now).reservation,
    others: NO_OTHERS,
  };
}
