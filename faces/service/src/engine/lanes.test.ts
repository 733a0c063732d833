/** Tests of the record of guards that held a lane. */
import { seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DestinationRuntime } from "./destination-runtime.ts";
import { endHold, type Hold, holdLane, holdOf, longestHold, MAX_HOLDS } from "./lanes.ts";

function laneDueAt(dueAt: number) {
  const key = { tenantId: "t", name: "d" };
  const { lanes } = new DestinationRuntime(seededRandom(1), key, 0, undefined);
  lanes.retry.dueAt = dueAt;
  return lanes.retry;
}

describe("a lane that a guard held", () => {
  it("reports the hold for tasks that were due before it ended, and for no others", () => {
    const lane = laneDueAt(100);
    expect(holdOf(lane, 100)).toBeUndefined();
    holdLane(lane, "rate", 100);
    endHold(lane, 250);
    endHold(lane, 300);
    expect([100, 249, 250, 300].map((dueAt) => holdOf(lane, dueAt)?.by)).toEqual([
      "rate",
      "rate",
      undefined,
      undefined,
    ]);
  });

  it("remembers the previous guard, for a task whose time ran out under it", () => {
    const lane = laneDueAt(100);
    holdLane(lane, "pause", 100);
    holdLane(lane, "pause", 150);
    endHold(lane, 200);
    for (let at = 200; at < 230; at += 10) {
      holdLane(lane, "concurrency", at);
      endHold(lane, at + 5);
    }
    const hold = holdOf(lane, 100);
    expect(hold).toMatchObject({ by: "concurrency", since: 200 });
    // Its time ran out at 200, or at 400.
    expect(hold && [200, 400].map((at) => longestHold(hold, 100, at))).toEqual([
      "pause",
      "concurrency",
    ]);
  });

  it("ignores a hold that ended at once, and one that ended before its tasks were due", () => {
    const lane = laneDueAt(100);
    holdLane(lane, "retry-budget", 100);
    endHold(lane, 200);
    holdLane(lane, "concurrency", 200);
    endHold(lane, 200);
    expect(holdOf(lane, 100)).toEqual({ by: "retry-budget", since: 100, before: undefined });
    lane.dueAt = 300;
    holdLane(lane, "rate", 310);
    expect(lane.hold).toEqual({ by: "rate", since: 310, before: undefined });
  });

  it("remembers every guard since the earliest task was due", () => {
    const lane = laneDueAt(100);
    for (const [at, by] of ["pause", "circuit-open", "rate"].entries()) {
      holdLane(lane, by as Hold["by"], 100 + at * 50);
    }
    const hold = holdOf(lane, 100) as Hold;
    const found = [150, 199, 249, 1000].map((endAt) => longestHold(hold, 100, endAt));
    expect(found).toEqual(["pause", "pause", "circuit-open", "rate"]);
    // A task that was due later was held by the later ones.
    expect(longestHold(hold, 160, 210)).toBe("circuit-open");
    lane.dueAt = 160;
    holdLane(lane, "concurrency", 300);
    // The pause ended before the task that is first now was due.
    expect(lane.hold).toEqual({
      by: "concurrency",
      since: 300,
      before: {
        by: "rate",
        since: 200,
        before: { by: "circuit-open", since: 150, before: undefined },
      },
    });
  });

  it("names the guard that held longest in all, although another one held it last", () => {
    const lane = laneDueAt(0);
    for (const [since, by] of [
      [0, "circuit-open"],
      [40, "rate"],
      [50, "circuit-open"],
      [90, "rate"],
    ] as const)
      holdLane(lane, by, since);
    const hold = holdOf(lane, 0) as Hold;
    expect([100, 171].map((endAt) => longestHold(hold, 0, endAt))).toEqual([
      "circuit-open",
      "rate",
    ]);
  });

  it("keeps a bounded number of guards, and of the oldest two the one that held longer", () => {
    const lane = laneDueAt(0);
    holdLane(lane, "pause", 0);
    for (let at = 1; at <= 1000; at++)
      holdLane(lane, at % 2 === 0 ? "rate" : "concurrency", at * 10);
    const holds: Hold[] = [];
    for (let one: Hold | undefined = lane.hold; one !== undefined; one = one.before)
      holds.push(one);
    expect(holds).toHaveLength(MAX_HOLDS);
    expect(holds.map(({ since }) => since).slice(0, 3)).toEqual([10_000, 9990, 9980]);
    expect(holds.at(-1)).toEqual({ by: "pause", since: 0, before: undefined });
  });
});
