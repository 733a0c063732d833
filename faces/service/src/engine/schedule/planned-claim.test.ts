/** Tests of planned claims: what a claim may take when permits are scarce. */
import { seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { DestinationRuntime } from "../destination/destination-runtime.ts";
import { plannedClaim } from "./planned-claim.ts";

const NOW = 1_000_000;

/** A claim of the lane `name`, whose own tasks are due, while the other lane has a task since `otherAt`. */
function claimOf(name: "first" | "retry", otherAt: number, isScarce = true) {
  const key = { tenantId: "a", name: "a" };
  const { first, retry } = new DestinationRuntime(seededRandom("a"), key, NOW, undefined).lanes;
  const [lane, other] = name === "first" ? [first, retry] : [retry, first];
  lane.dueAt = NOW - 1000;
  other.dueAt = otherAt;
  const parts = { lane, partitions: [0], permits: [], arrivals: undefined, origin: undefined };
  const { ahead, aheadMs } = plannedClaim(parts, { ahead: 5, aheadMs: 8, isScarce, now: NOW });
  return { ahead, aheadMs };
}

describe("if permits are scarce", () => {
  it("a first attempt does not overtake a retry that was due before it", () => {
    expect(claimOf("first", NOW - 400)).toEqual({ ahead: 0, aheadMs: -400 });
  });

  it("a retry does not overtake a first attempt that was due before it, or with it", () => {
    expect(claimOf("retry", NOW - 400)).toEqual({ ahead: 0, aheadMs: -401 });
  });

  it("a claim takes tasks that are due soon, if the other lane has no due task", () => {
    expect(claimOf("first", NOW + 1)).toEqual({ ahead: 5, aheadMs: 8 });
  });
});

it("with enough permits, a claim takes tasks that are due soon", () => {
  expect(claimOf("first", NOW - 400, false)).toEqual({ ahead: 5, aheadMs: 8 });
});
