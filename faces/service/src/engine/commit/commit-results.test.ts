/** Tests of the result of a commit: the change of a breaker is reported once, in whatever order results are applied. */
import { seededRandom } from "@redrive/core";
import { expect, it } from "vitest";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import { T0, TENANT } from "../../stores/store.testing.ts";
import { DestinationRuntime } from "../destination/destination-runtime.ts";
import { EngineEvents } from "../events/engine-events.ts";
import type { PendingCommit } from "./commit-batch.ts";
import { applyResult, type CommitContext } from "./commit-results.ts";

const NAME = "d";
const row = (version: number, breakerState: DestinationRow["breakerState"]): DestinationRow => ({
  ...blankDestination(TENANT, NAME),
  version,
  breakerState,
});

/** Applies a commit that has written this row and nothing else, and returns the reported events. */
function reported(before: (destination: DestinationRuntime) => void, written: DestinationRow) {
  const key = { tenantId: TENANT, name: NAME };
  const destination = new DestinationRuntime(seededRandom("d"), key, T0, undefined);
  before(destination);
  const events = new EngineEvents("node");
  const types: string[] = [];
  events.listen(({ type }) => types.push(type));
  const none = { settles: [], creates: [], cancels: [], retryNows: [], claims: [] };
  const batch = { destinations: [{ row: written }] };
  const commit = { ...none, permits: [], written: [destination], batch };
  const context = { events, now: T0, isShared: false };
  const result = { ...none, destinations: [null] };
  applyResult(
    context as unknown as CommitContext,
    commit as unknown as PendingCommit,
    result as never,
  );
  return { types, version: destination.row.version };
}

it("reports a breaker that opens", () => {
  const before = (destination: DestinationRuntime) => destination.recordWrite(row(5, "CLOSED"));
  expect(reported(before, row(6, "OPEN"))).toEqual({ types: ["breaker.opened"], version: 6 });
  expect(reported(before, row(6, "CLOSED")).types).toEqual([]);
});

it("reports it also if the claims of a commit beside it have brought the row already", () => {
  const before = (destination: DestinationRuntime) => {
    destination.recordWrite(row(5, "CLOSED"));
    destination.adopt(row(6, "OPEN"), T0);
  };
  expect(reported(before, row(6, "OPEN"))).toEqual({ types: ["breaker.opened"], version: 6 });
});

it("keeps a newer row of another node", () => {
  const before = (destination: DestinationRuntime) => {
    destination.recordWrite(row(5, "OPEN"));
    destination.adopt(row(7, "OPEN"), T0);
  };
  expect(reported(before, row(6, "CLOSED"))).toEqual({ types: ["breaker.closed"], version: 7 });
});
