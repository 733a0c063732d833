/** Nodes whose clocks are an hour wrong send nothing early and keep their leases. */
// needs: postgres, redis, build, faketime
import { expect, it } from "vitest";
import { fakeTimeLibrary } from "../servers/fake-time.ts";
import { describeFleets, type Node, until } from "./fleet.ts";
import { allEnded, createTasks, expectBounded } from "./load.ts";

const TASKS = 30;
const LEASE_MS = 3000;
/** Longer than a lease, so that a node with a wrong clock would have lost it. */
const AHEAD_MS = 5000;

/** Timers use the monotonic clock, which stays real. */
const withOffset = (offset: string) => ({
  leaseMs: LEASE_MS,
  env: {
    LD_PRELOAD: fakeTimeLibrary(),
    FAKETIME: offset,
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    DONT_FAKE_MONOTONIC: "1",
  },
});

describeFleets("nodes with wrong clocks", (open) => {
  it("send scheduled tasks on time and keep their leases", async () => {
    const fleet = await open({ nodes: 1, leaseMs: LEASE_MS });
    const ahead = await fleet.join(withOffset("+3600s"));
    const behind = await fleet.join(withOffset("-3600s"));
    expect(await clockOf(ahead)).toBeGreaterThan(Date.now() + 3_500_000);
    expect(await clockOf(behind)).toBeLessThan(Date.now() - 3_500_000);
    const scheduledAt = Date.now() + AHEAD_MS;
    const taskIds = await createTasks(fleet, TASKS, { scheduledAt });
    await until("tasks arrive", 60_000, () => fleet.target.requests.length > 0);
    await allEnded(fleet.nodes[0]!, taskIds);
    expectBounded(fleet.target, taskIds);
    expect(fleet.target.requests).toHaveLength(TASKS);
    expect(Math.min(...fleet.target.requests.map(({ at }) => at))).toBeGreaterThanOrEqual(
      scheduledAt,
    );
    for (const { log } of fleet.nodes) {
      expect(log.filter(({ event }) => event === "node.lease-lost")).toEqual([]);
    }
  });
});

/** The wall clock of a node, from its log. */
async function clockOf({ log }: Node): Promise<number> {
  return log[0]?.time ?? Number.NaN;
}
