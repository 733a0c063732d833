/** Node table: the leases of nodes, their shares of limits, and the claims that they hold. */
import type { StartedTask } from "../../model/batch.ts";
import type {
  DestinationReport,
  DestinationShare,
  NodeReport,
  RateReservation,
  RateUse,
  Renewal,
  SlotUse,
} from "../../model/node-report.ts";
import type { Store } from "../../model/store.ts";
import { bytesOf, bytesOrNull, type Link, listOf, type Reply, textOf } from "./connection/link.ts";
import type { DestinationTable } from "./destination-table.ts";
import { type Packable, pack, type Unpacked, unpackList } from "./message-pack.ts";
import {
  ALL_PARTITIONS,
  claimantOf,
  joined,
  type Keys,
  newTaskOf,
  rowOf,
  startedOf,
  stateCells,
} from "./rows.ts";
import { HAVE_LEASES, RENEW, RETIRE } from "./scripts/node-scripts.ts";
import type { WakeUps } from "./wake-ups.ts";

type NodeMethods = Pick<Store, "renew" | "retire" | "lapsed" | "claimsOf">;

interface NodeTableParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
  readonly wakeUps: WakeUps;
}

export function nodeTable(parts: NodeTableParts): NodeMethods {
  const { link, keys, wakeUps } = parts;
  return {
    renew: (report) => link.replicated(() => renew(parts, report)),
    retire: (nodeId) =>
      link.replicated(async () => {
        await link.run(RETIRE, [keys.control], [nodeId]);
        wakeUps.sendNodesChanged();
      }),
    ...claimMethods(parts),
  };
}

async function renew(parts: NodeTableParts, report: NodeReport): Promise<Renewal> {
  const { link, keys, destinations, wakeUps } = parts;
  const reply = await link.run(RENEW, [keys.control], [pack(reportCells(report))]);
  const [packed, ...rest] = listOf(reply);
  const cells = unpackList(bytesOf(packed));
  const [now, wasLapsed, takesAll, hasChanged, nodes, shares] = cells;
  if (hasChanged === 1) wakeUps.sendNodesChanged();
  const count = report.destinations.length;
  const late = rest.slice(count);
  // The next renewal repeats it.
  if (late.length > 0) destinations.raiseLate(late).catch(() => {});
  return {
    now: now as number,
    wasLapsed: wasLapsed === 1,
    takesAll: takesAll === 1,
    nodes: [...(nodes as readonly string[])].sort(),
    destinations: (shares as readonly (readonly Unpacked[])[]).map((share, at) =>
      shareOf(share, bytesOf(rest[at])),
    ),
  };
}

function reportCells(report: NodeReport): readonly Packable[] {
  const { nodeId, round, leaseMs, isLeaving, takesAll, destinations } = report;
  const flags = [isLeaving ? 1 : 0, takesAll ? 1 : 0];
  return [nodeId, leaseMs, ...flags, destinations.map(destinationCells), round];
}

function destinationCells(report: DestinationReport): readonly Packable[] {
  const slots = (use: SlotUse | null) => use && [use.limit, use.wanted, use.used];
  const rate = (use: RateUse | null) => use && [use.perSecond, use.burst, use.wanted];
  return [
    joined(report.tenantId, report.name),
    report.version,
    report.calls,
    report.failures,
    report.slowCalls,
    report.demand,
    slots(report.slots),
    slots(report.retrySlots),
    rate(report.rate),
    rate(report.retryRate),
  ];
}

function shareOf(cells: readonly Unpacked[], row: Buffer): DestinationShare {
  const [slots, retrySlots, rate, retryRate, others] = cells;
  const [calls = 0, failures = 0, slowCalls = 0, demanding = 0, demand = 0] =
    others as readonly number[];
  return {
    row: row.length === 0 ? null : rowOf(row),
    slots: slots as number,
    retrySlots: retrySlots as number,
    rate: reservationOf(rate),
    retryRate: reservationOf(retryRate),
    others: { calls, failures, slowCalls, demanding, demand },
  };
}

function reservationOf(cells: Unpacked | undefined): RateReservation | null {
  if (!Array.isArray(cells)) return null;
  const [startAt, count] = cells as [number, number];
  return { startAt, count };
}

function claimMethods({ link, keys }: NodeTableParts): Pick<Store, "lapsed" | "claimsOf"> {
  const claims = (partition: number, nodeId: string, limit: number) =>
    claimsIn(link, keys.base(partition), nodeId, limit);
  return {
    async lapsed({ nodeId, partitions, limit }) {
      const owners = await Promise.all(
        partitions.map((one) => link.call("hkeys", `${keys.base(one)}:cn`)),
      );
      const byPartition = owners.map((names) => listOf(names).map(textOf));
      const others = [...new Set(byPartition.flat())].filter((owner) => owner !== nodeId);
      if (others.length === 0) return [];
      const leases = listOf(await link.run(HAVE_LEASES, [keys.control], others));
      const lapsed = new Set(others.filter((_, at) => leases[at] === 0));
      const found = await Promise.all(
        partitions.flatMap((one, at) =>
          (byPartition[at] ?? [])
            .filter((owner) => lapsed.has(owner))
            .map((owner) => claims(one, owner, limit)),
        ),
      );
      return found.flat().slice(0, limit);
    },
    async claimsOf(nodeId, limit) {
      const found = await Promise.all(ALL_PARTITIONS.map((one) => claims(one, nodeId, limit)));
      return found.flat().slice(0, limit);
    },
  };
}

/** The claims that a node holds in one partition. */
async function claimsIn(
  link: Link,
  base: string,
  nodeId: string,
  limit: number,
): Promise<readonly StartedTask[]> {
  const reply = await link.call("zrange", `${base}:cl:${nodeId}`, 0, limit - 1);
  const tasks = listOf(reply).map(bytesOf);
  if (tasks.length === 0) return [];
  const [states, heads, bodies] = await Promise.all(
    ["s", "h", "b"].map((kind) => link.call("hmget", `${base}:${kind}`, ...tasks)),
  );
  return tasks.flatMap((_, at) => startedFrom(at, states, heads, bodies, nodeId));
}

/** Nothing, if the claim has ended meanwhile. */
function startedFrom(
  at: number,
  states: Reply | undefined,
  heads: Reply | undefined,
  bodies: Reply | undefined,
  nodeId: string,
): readonly StartedTask[] {
  const state = bytesOrNull(listOf(states ?? [])[at]);
  const head = bytesOrNull(listOf(heads ?? [])[at]);
  if (state === null || head === null) return [];
  const started = stateCells(state);
  if (claimantOf(started) !== nodeId) return [];
  return [startedOf(newTaskOf(head, bytesOrNull(listOf(bodies ?? [])[at])), started)];
}
