/** Destination query: counts and states of destinations, summed over all partitions. */
import { blankDestination } from "../../../model/destination-row.ts";
import { TASK_STATUSES } from "../../../model/task.ts";
import type { StoredDestinationState, TaskCounts, TaskQuery } from "../../../model/task-query.ts";
import type { Link } from "../connection/link.ts";
import { bytesOf, listOf, textOf } from "../connection/reply.ts";
import { ALL_PARTITIONS, type Keys } from "../rows/keys.ts";
import { unpackList } from "../rows/message-pack.ts";
import { DESTINATIONS } from "../scripts/partition-scripts.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { MergedMembers } from "./merged-members.ts";

type DestinationQuery = Pick<
  TaskQuery,
  "count" | "countTenant" | "destinations" | "destination" | "countDestinations"
>;

export interface DestinationQueryParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
}

export function destinationQuery(parts: DestinationQueryParts): DestinationQuery {
  const { link, keys } = parts;
  const { control } = keys;
  const size = async (key: string) => Number(await link.call("zcard", key));
  return {
    count: async (tenantId) => countsOf(await sumTenant(parts, tenantId)),
    async countTenant(tenantId) {
      const [pending = 0, inFlight = 0] = await sumTenant(parts, tenantId);
      return pending + inFlight;
    },
    async destinations(tenantId, { limit, cursor }) {
      const ofTasks = ALL_PARTITIONS.map((one) => `${keys.base(one)}:dn:${tenantId}`);
      const range = { keys: [...ofTasks, `${control}:rn:${tenantId}`], isDescending: false };
      const members = new MergedMembers(link, { ...range, after: cursor });
      const names = await members.next(limit + 1);
      const page = names.slice(0, limit);
      const states = await readStates(parts, tenantId, page);
      return {
        destinations: states.filter(exists),
        cursor: names.length > limit ? (page.at(-1) ?? null) : null,
      };
    },
    async destination(tenantId, name) {
      const [state] = await readStates(parts, tenantId, [name]);
      return state !== undefined && exists(state) ? state : null;
    },
    async countDestinations(tenantId) {
      const [all, open, paused] = await Promise.all(
        ["rn", "ro", "rp"].map((kind) => size(`${control}:${kind}:${tenantId}`)),
      );
      return { open: open ?? 0, closed: (all ?? 0) - (open ?? 0), paused: paused ?? 0 };
    },
  };
}

/** The tasks of a tenant by the number of the status. */
async function sumTenant(
  { link, keys }: DestinationQueryParts,
  tenantId: string,
): Promise<readonly number[]> {
  const statuses = TASK_STATUSES.map((_, number) => number);
  const replies = await Promise.all(
    ALL_PARTITIONS.map((one) => link.call("hmget", `${keys.base(one)}:n:${tenantId}`, ...statuses)),
  );
  const counts = replies.map(listOf);
  return statuses.map((status) =>
    counts.reduce((sum, one) => sum + Number(one[status] ? textOf(one[status]) : 0), 0),
  );
}

function countsOf(numbers: readonly number[]): TaskCounts {
  const found = TASK_STATUSES.flatMap((status, at) => {
    const count = numbers[at] ?? 0;
    return count > 0 ? [[status, count] as const] : [];
  });
  return Object.fromEntries(found);
}

function exists({ row, tasks }: StoredDestinationState): boolean {
  return row.version > 0 || Object.keys(tasks).length > 0;
}

async function readStates(
  { link, keys, destinations }: DestinationQueryParts,
  tenantId: string,
  names: readonly string[],
): Promise<readonly StoredDestinationState[]> {
  if (names.length === 0) return [];
  const [rows, ...replies] = await Promise.all([
    destinations.readNames(tenantId, names),
    ...ALL_PARTITIONS.map((one) => link.run(DESTINATIONS, [keys.base(one)], [tenantId, ...names])),
  ]);
  const byName = new Map(rows.map((row) => [row.name, row]));
  const partitions = replies.map(
    (reply) => unpackList(bytesOf(reply)) as unknown as readonly (readonly (number | null)[])[],
  );
  return names.map((name, at) => {
    const cells = partitions.map((one) => one[at] ?? []);
    const statuses = TASK_STATUSES.map((_, status) =>
      cells.reduce((sum, numbers) => sum + (numbers[status] ?? 0), 0),
    );
    const dueAts = cells.map(
      (numbers) => numbers[TASK_STATUSES.length] ?? Number.POSITIVE_INFINITY,
    );
    const nextDueAt = Math.min(...dueAts);
    return {
      row: byName.get(name) ?? blankDestination(tenantId, name),
      tasks: countsOf(statuses),
      nextDueAt: nextDueAt === Number.POSITIVE_INFINITY ? null : nextDueAt,
    };
  });
}
