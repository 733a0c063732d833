/** Tests of the record of guards that held a lane. */
import { seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DestinationRuntime } from "./destination-runtime.ts";
import { endHold, guardAt, holdLane, holdOf } from "./lane-hold.ts";

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
    expect(hold && [199, 200].map((at) => guardAt(hold, at))).toEqual(["pause", "concurrency"]);
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
});
