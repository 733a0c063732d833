/**
 * Memory destinations: the destinations of the memory store: their lanes, counts and pages, and the
 * removal of rows that nothing uses.
 */
import {
  blankDestination,
  type DestinationRow,
  isMeaningless,
} from "../../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../model/store.ts";
import type { TaskStatus } from "../../model/task.ts";
import type { StoredDestinationState, TaskQuery } from "../../model/task-query.ts";
import type { MemoryDocuments } from "./memory-documents.ts";
import type { MemoryNodes } from "./memory-nodes.ts";
import { keyOf, type Tables } from "./rows.ts";

type DestinationQuery = Pick<
  TaskQuery,
  "count" | "countTenant" | "destinations" | "destination" | "countDestinations"
>;

export function destinationQuery(tables: Tables): DestinationQuery {
  const { rows, destinations } = tables;
  const rowsOf = (tenantId: string) =>
    [...destinations.values()].filter((row) => row.tenantId === tenantId);
  return {
    async count(tenantId) {
      const sums: Partial<Record<TaskStatus, number>> = {};
      for (const counts of rows.counts(tenantId).values()) {
        for (const [status, count] of Object.entries(counts) as [TaskStatus, number][]) {
          sums[status] = (sums[status] ?? 0) + count;
        }
      }
      return sums;
    },
    async countTenant(tenantId) {
      const counts = [...rows.counts(tenantId).values()];
      return counts.reduce((sum, one) => sum + (one.PENDING ?? 0) + (one.IN_FLIGHT ?? 0), 0);
    },
    async destinations(tenantId, { limit, cursor = "" }) {
      const names = new Set([
        ...rowsOf(tenantId).map(({ name }) => name),
        ...rows.counts(tenantId).keys(),
      ]);
      const rest = [...names].filter((name) => name > cursor).sort();
      const page = rest.slice(0, limit).map((name) => stateOf(tables, tenantId, name));
      const last = rest.length > limit ? page.at(-1) : undefined;
      return { destinations: page, cursor: last?.row.name ?? null };
    },
    async destination(tenantId, name) {
      const state = stateOf(tables, tenantId, name);
      return state.row.version > 0 || Object.keys(state.tasks).length > 0 ? state : null;
    },
    async countDestinations(tenantId) {
      const own = rowsOf(tenantId);
      const open = own.filter(({ breakerState }) => breakerState !== "CLOSED").length;
      const paused = own.filter(({ pausedAt }) => pausedAt !== null).length;
      return { open, closed: own.length - open, paused };
    },
  };
}

function stateOf(
  { rows, destinations }: Tables,
  tenantId: string,
  name: string,
): StoredDestinationState {
  return {
    row: destinations.get(keyOf(tenantId, name)) ?? blankDestination(tenantId, name),
    tasks: rows.countsOf(tenantId, name) ?? {},
    nextDueAt: rows.nextDueAt(tenantId, name),
  };
}

/** Lanes in the order in which they were created; the cursor is the number of the last one. */
export function memoryDue({ rows }: Tables): Pick<Store, "dueLanes"> {
  return {
    async dueLanes({ partitions, from, before, limit, cursor }) {
      const own = rows.lanes().filter(({ partition }) => partitions.includes(partition));
      const rest = own.filter(({ number }) => number > Number(cursor ?? 0));
      const page = rest.slice(0, limit);
      const lanes = page.flatMap((queue) => {
        const { lane, partition } = queue;
        const { tenantId, destination } = queue.place;
        const dueAt = rows.head(queue)?.state.nextAttemptAt;
        const isDue = dueAt !== undefined && dueAt >= from && dueAt < before;
        return isDue ? [{ tenantId, destination, lane, partition, dueAt }] : [];
      });
      const last = rest.length > limit ? page.at(-1) : undefined;
      return { lanes, cursor: last ? String(last.number) : null };
    },
  };
}

interface UnusedParts {
  readonly tables: Tables;
  readonly documents: MemoryDocuments;
  readonly nodes: MemoryNodes;
  readonly exclusive: boolean;
}

/** Removes rows; returns how many. */
export function removeRows(
  tables: Tables,
  exclusive: boolean,
  isUnused: (row: DestinationRow) => boolean,
): number {
  const { destinations } = tables;
  let removed = 0;
  for (const [key, row] of destinations) {
    if (!isUnused(row)) continue;
    destinations.delete(key);
    if (!exclusive) tables.lastRemoved = Math.max(tables.lastRemoved, row.version);
    removed++;
  }
  return removed;
}

/** Everything at once: the memory store has no slow disk, and no cursor is needed. */
export async function removeUnused(parts: UnusedParts, { now }: UnusedQuery): Promise<UnusedPage> {
  const { tables, documents, nodes, exclusive } = parts;
  const { rows, destinations } = tables;
  const hasNoTasks = ({ tenantId, name }: DestinationRow) =>
    rows.countsOf(tenantId, name) === undefined;
  let removed = removeRows(tables, exclusive, (row) => hasNoTasks(row) && isMeaningless(row, now));
  const { documents: guards } = await documents.list(GUARD_DOCUMENT, { limit: Number.MAX_VALUE });
  for (const { tenantId, id } of guards) {
    const hasTasks = rows.countsOf(tenantId, id) !== undefined;
    const isKnown = hasTasks || destinations.has(keyOf(tenantId, id));
    if (!isKnown && (await documents.remove(GUARD_DOCUMENT, tenantId, id))) removed++;
  }
  const claimants = new Set([...rows.claimed()].map(({ state }) => state.claimedBy));
  removed += nodes.removeUnused((nodeId) => claimants.has(nodeId));
  return { removed, cursor: null };
}
