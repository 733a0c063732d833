/** Tests of the settles that end an attempt or return a claim. */
import { decide, OPEN_GATES, resolvePolicy, seededRandom, statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { StartedTask } from "../model/batch.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { batch, claimFirst, create, T0 } from "../stores/store.testing.ts";
import { decideEnding, historyOf, releaseOf, requestOf } from "./settlement.ts";

const FAILED = statusOutcome(500);
const LOST = { kind: "abandoned" } as const;

/** A claimed task, with these fields. */
async function claimWith(fields: Partial<StartedTask>): Promise<StartedTask> {
  const store = memoryStore();
  await store.commit(batch({ creates: [create({ idempotent: true })] }));
  const [claim] = await claimFirst(store);
  if (claim === undefined) throw new Error("nothing was claimed");
  return { ...claim, ...fields };
}

describe("the decision after an attempt", () => {
  it("continues the random stream of the task, though nothing of the stream is stored", async () => {
    const policy = resolvePolicy({ backoff: "FIXED", initialDelayMs: 1000, jitterType: "FULL" });
    const random = seededRandom("settlement");
    const task = await claimWith({});
    const stream = random.fork(task.taskId);
    const decisions = [1, 2, 3].map((attemptNumber) => {
      const given = { policy, outcome: FAILED, gates: OPEN_GATES, now: T0, random };
      return decideEnding({ ...given, task: { ...task, attemptNumber } });
    });
    const ofOneStream = [1, 2, 3].map((attempts) =>
      decide(policy, requestOf(task), historyOf(task, attempts), FAILED, OPEN_GATES, T0, stream),
    );
    expect(decisions).toEqual(ofOneStream);
    const delays = decisions.map((decision) => decision.kind === "retry" && decision.delayMs);
    expect(new Set(delays).size).toBe(3);
  });

  it.each([
    [FAILED, "attempts"],
    [LOST, "abandoned"],
  ] as const)("says how the last attempt ended: %j, %s", async (outcome, reason) => {
    const policy = resolvePolicy({ maxAttempts: 2 });
    const task = await claimWith({ attemptNumber: 2 });
    const random = seededRandom("settlement");
    const ending = { task, policy, outcome, gates: OPEN_GATES, now: T0, random };
    expect(decideEnding(ending)).toMatchObject({ kind: "stop", status: "EXHAUSTED", reason });
  });
});

describe("a released claim", () => {
  it.each([
    [{ attemptNumber: 1, abandonedCount: 0 }, "first"],
    [{ attemptNumber: 2, abandonedCount: 0 }, "retry"],
    [{ attemptNumber: 3, abandonedCount: 2 }, "suspect"],
  ] as const)("returns to the lane from which it was claimed: %j, %s", async (fields, lane) => {
    const task = await claimWith(fields);
    expect(releaseOf(task, T0 + 5)).toMatchObject({
      status: "PENDING",
      lane,
      nextAttemptAt: T0 + 5,
      abandonedCount: fields.abandonedCount,
      attempt: null,
    });
  });
});
