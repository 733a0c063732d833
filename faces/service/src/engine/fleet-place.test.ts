/** Tests of the place of a node in its fleet: who removes unused rows, and how retry budgets are divided. */
import { seededRandom, virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { T0, TENANT } from "../stores/store.testing.ts";
import { EngineTime } from "../time/engine-time.ts";
import { Destinations } from "./destination-runtime.ts";
import { Fleet } from "./fleet.ts";
import { OwnPartitions } from "./node.ts";

const WINDOW_MS = 10_000;
const LEASE_MS = 4000;
/** A node that has joined others is new for this long. */
const NEW_MS = LEASE_MS + WINDOW_MS;

function fleetOf(nodeId: string) {
  const budget = { serviceBudget: undefined, budgetOptions: undefined };
  const partitions = new OwnPartitions(64);
  const fleet = new Fleet({ nodeId, partitions, leaseMs: LEASE_MS, ...budget }, false);
  const time = new EngineTime(virtualClock(T0), 0);
  const destinations = new Destinations(time, seededRandom("d"), { fleet });
  const follow = (nodes: readonly string[], now: number) => {
    const rest = { now, wasLapsed: false, takesAll: nodes.length === 1 };
    fleet.follow({ ...rest, nodes, destinations: [] }, destinations, now);
  };
  return {
    fleet,
    destinations,
    follow,
    placeAt: (now: number) => fleet.budgetPlace(WINDOW_MS, now),
  };
}

describe("a node of a fleet", () => {
  it("is new until the others know it and a window has passed, and never if it was the first", () => {
    const joining = fleetOf("node-2");
    joining.follow(["node-1", "node-2"], T0);
    const first = fleetOf("node-1");
    first.follow(["node-1"], T0);
    first.follow(["node-1", "node-2"], T0 + 1);
    const isNew = [T0 + 2, T0 + NEW_MS - 1, T0 + NEW_MS].map((now) => [
      joining.placeAt(now)?.isNew,
      first.placeAt(now)?.isNew,
    ]);
    expect(isNew).toEqual([
      [true, false],
      [true, false],
      [false, false],
    ]);
  });

  it("keeps its place once it is settled, whatever the window of a budget is", () => {
    const { fleet, follow } = fleetOf("node-2");
    follow(["node-1", "node-2"], T0);
    const longMs = 60_000;
    const settledAt = fleet.placeSettledAt;
    expect(fleet.budgetPlace(longMs, T0 + LEASE_MS + longMs - 1)?.isNew).toBe(true);
    expect(fleet.budgetPlace(longMs, settledAt)).toMatchObject({ isNew: false, maxNodes: 2 });
  });

  it("uses the part of a node that has left only after a window", () => {
    const { follow, placeAt } = fleetOf("node-1");
    follow(["node-1", "node-2", "node-3"], T0);
    follow(["node-1", "node-2"], T0 + 20_000);
    expect(placeAt(T0 + 20_000 + WINDOW_MS)).toMatchObject({ nodes: 2, maxNodes: 3 });
    expect(placeAt(T0 + 20_001 + WINDOW_MS)).toMatchObject({ nodes: 2, maxNodes: 2 });
  });

  it("has the whole retry budget a minute after it has become alone, used or not", () => {
    const { destinations, follow } = fleetOf("node-2");
    const retries = (name: string, now: number) => {
      const destination = destinations.getOrCreate(TENANT, name);
      let count = 0;
      while (destination.takePermit(true, now) !== undefined) count++;
      return count;
    };
    follow(["node-1", "node-2"], T0);
    destinations.getOrCreate(TENANT, "idle").takePermit(false, T0);
    expect(retries("used", T0)).toBe(0);
    // It is still new, so the node that has left may have used the budget.
    follow(["node-2"], T0 + 2000);
    expect(retries("used", T0 + 2000)).toBe(0);
    expect(retries("used", T0 + NEW_MS)).toBe(10);
    expect(retries("idle", T0 + 120_000)).toBe(10);
  });

  it("removes unused rows, and no other one does", () => {
    const nodes = ["node-1", "node-2", "node-3"];
    const sweepers = nodes.filter((nodeId) => {
      const { fleet, follow } = fleetOf(nodeId);
      follow(nodes, T0);
      return fleet.isSweeper();
    });
    expect(sweepers).toHaveLength(1);
  });
});
