/** Tests of the rows that a commit wrote: the change of a breaker is reported once, whatever became known meanwhile. */
import { seededRandom, virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { EMPTY_BATCH } from "../model/batch.ts";
import { blankDestination, type DestinationRow, isOpen } from "../model/destination-row.ts";
import { T0, TENANT } from "../stores/store.testing.ts";
import { EngineTime } from "../time/engine-time.ts";
import { applyWrites } from "./commit.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { DocumentReports, EngineEvents } from "./events.ts";
import { Scheduler } from "./scheduler.ts";

const NAME = "d";
const rowOf = (version: number, breakerState: DestinationRow["breakerState"]): DestinationRow => ({
  ...blankDestination(TENANT, NAME),
  version,
  breakerState,
});

/**
 * A commit replaces the row `before` by `written`. While it runs, the node adopts the rows `meanwhile`.
 * Returns the events that are reported, and the version that the node knows in the end.
 */
function write(
  before: DestinationRow,
  written: DestinationRow,
  meanwhile: readonly DestinationRow[] = [],
) {
  const key = { tenantId: TENANT, name: NAME };
  const destination = new DestinationRuntime(seededRandom("d"), key, T0, undefined);
  destination.recordWrite(before);
  const events = new EngineEvents("node");
  const types: string[] = [];
  events.listen(({ type }) => types.push(type));
  const scheduler = new Scheduler({ perNode: 10, perOrigin: 10 });
  const reports = new DocumentReports(new EngineTime(virtualClock(T0), 0), events);
  const context = { events, scheduler, reports, now: T0, expiresAt: null };
  const batch = { ...EMPTY_BATCH, now: T0, nodeId: "node", destinations: [{ row: written }] };
  const commit = { written: [{ destination, wasOpen: isOpen(before) }], batch };
  for (const row of meanwhile) destination.adopt(row, T0);
  applyWrites(context, commit, { destinations: [null] });
  return { types, version: destination.row.version };
}

it("reports a breaker that opens", () => {
  const opened = write(rowOf(5, "CLOSED"), rowOf(6, "OPEN"));
  expect(opened).toEqual({ types: ["breaker.opened"], version: 6 });
  expect(write(rowOf(5, "CLOSED"), rowOf(6, "CLOSED")).types).toEqual([]);
});

it("reports it also if the claims of a commit beside it have brought the row already", () => {
  const opened = write(rowOf(5, "CLOSED"), rowOf(6, "OPEN"), [rowOf(6, "OPEN")]);
  expect(opened).toEqual({ types: ["breaker.opened"], version: 6 });
});

it("keeps a newer row of another node, and reports what its own one changed", () => {
  const closed = write(rowOf(5, "OPEN"), rowOf(6, "CLOSED"), [rowOf(7, "OPEN")]);
  expect(closed).toEqual({ types: ["breaker.closed"], version: 7 });
  const opened = write(rowOf(5, "CLOSED"), rowOf(6, "OPEN"), [
    rowOf(6, "OPEN"),
    rowOf(7, "HALF_OPEN"),
  ]);
  expect(opened).toEqual({ types: ["breaker.opened"], version: 7 });
});
