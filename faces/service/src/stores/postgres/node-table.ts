/**
 * Node table: the exchange of a node with the others, by one call of `renew_node`.
 */
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
import { Waves } from "./commit.ts";
import type { Sql } from "./connection/sql.ts";
import { originalJson, storedJson } from "./connection/sql.ts";
import { type DestinationCells, destinationOf } from "./schema/rows.ts";

type ShareCells = readonly [
  item: number,
  slots: number,
  retrySlots: number,
  startAt: number | null,
  count: number | null,
  retryStartAt: number | null,
  retryCount: number | null,
  others: readonly [number, number, number, number, number],
  row: DestinationCells | null,
];

interface Exchanged {
  readonly now: number;
  readonly wasLapsed: boolean;
  readonly takesAll: boolean;
  readonly isChanged: boolean;
  readonly nodes: readonly string[];
  readonly shares: readonly ShareCells[];
}

/** `changed` is called when the nodes of the fleet have changed. */
export function nodeTable(
  { run }: Sql,
  changed: () => void,
): Pick<Store, "clock" | "renew" | "retire" | "latestAt"> {
  return {
    async clock() {
      const [row] = await run("SELECT redrive_functions.clock_ms()");
      return Number(row?.[0]);
    },
    async renew(report) {
      const [row] = await run("SELECT redrive_functions.renew_node($1)::text", [
        storedJson(reportOf(report)),
      ]);
      const exchanged = originalJson<Exchanged>(String(row?.[0]));
      if (exchanged.isChanged) changed();
      return renewalOf(exchanged);
    },
    async retire(nodeId) {
      await run("SELECT redrive_functions.retire_node($1)", [nodeId]);
      changed();
    },
    // Engine time follows the clock of the server, so it needs no latest instant.
    latestAt: async () => 0,
  };
}

function reportOf({ destinations, now: _, ...report }: NodeReport): object {
  const waves: unknown[][] = [];
  const numbers = new Waves();
  for (const [at, one] of destinations.entries()) {
    const wave = numbers.next([`${one.tenantId}\n${one.name}`]);
    waves[wave] ??= [];
    waves[wave].push(reportCells(at, one));
  }
  return { ...report, waves };
}

function reportCells(at: number, report: DestinationReport): readonly unknown[] {
  const { tenantId, name, version, calls, failures, slowCalls, demand } = report;
  const slotCells = (use: SlotUse | null) => use && [use.limit, use.wanted, use.used];
  const rateCells = (use: RateUse | null) => use && [use.perSecond, use.burst, use.wanted];
  return [
    ...[at, tenantId, name, version, calls, failures, slowCalls, demand],
    ...[slotCells(report.slots), slotCells(report.retrySlots)],
    ...[rateCells(report.rate), rateCells(report.retryRate)],
  ];
}

function renewalOf({ isChanged: _, shares, ...rest }: Exchanged): Renewal {
  const byItem = shares.toSorted(([one], [other]) => one - other);
  return { ...rest, destinations: byItem.map(shareOf) };
}

function shareOf(cells: ShareCells): DestinationShare {
  const [, slots, retrySlots, startAt, count, retryStartAt, retryCount, others, row] = cells;
  const [calls, failures, slowCalls, demanding, demand] = others;
  return {
    row: row && destinationOf(row),
    slots,
    retrySlots,
    rate: reservationOf(startAt, count),
    retryRate: reservationOf(retryStartAt, retryCount),
    others: { calls, failures, slowCalls, demanding, demand },
  };
}

function reservationOf(startAt: number | null, count: number | null): RateReservation | null {
  return startAt === null || count === null ? null : { startAt, count };
}
