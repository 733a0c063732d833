/** Tests that the list of claims stays correct while claims end in any order. */
import { type Permit, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { StartedTask } from "../model/batch.ts";
import { newTask, T0, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { HeldClaims } from "./runner.ts";

function setup(count: number) {
  const key = { tenantId: TENANT, name: "d" };
  const destination = new DestinationRuntime(seededRandom("d"), key, T0, undefined);
  const claims = new HeldClaims();
  const held = Array.from({ length: count }, (_, ref) => {
    const task: StartedTask = {
      ...newTask(),
      ref,
      attemptNumber: 1,
      claimEpoch: 1,
      claimedBy: "node-1",
      claimedAt: T0,
      nextAttemptAt: T0,
      lastDelayMs: 0,
      abandonedCount: 0,
      cancelRequestedAt: null,
      lastStatus: null,
    };
    const permit = destination.takePermit(false, T0) as Permit;
    return claims.add(task, destination, permit, undefined, undefined);
  });
  return { claims, destination, held };
}

describe("held claims", () => {
  it("are those that have not ended, in whatever order the others did", () => {
    const { claims, held } = setup(4);
    const [first, second, third, fourth] = held;
    // The last one takes the slot of each that ends.
    const left = [first, fourth, third].map((claim) => {
      claims.remove(claim!);
      return held.filter((one) => claims.has(one.task));
    });
    expect(left).toEqual([[second, third, fourth], [second, third], [second]]);
    expect(claims.values()).toEqual([second]);
  });

  it("keep their destination in use", () => {
    const { claims, destination, held } = setup(2);
    expect(destination.users).toBe(2);
    for (const claim of held) claims.remove(claim);
    expect(destination.users).toBe(0);
  });
});
