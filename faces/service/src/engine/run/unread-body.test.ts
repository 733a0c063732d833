/** Tests of attempts whose stored body cannot be read: how long the task waits, and how it ends. */
import { type Policy, resolvePolicy, seededRandom } from "@redrive/core";
import { expect, it } from "vitest";
import { type AttemptResult, notStarted } from "../../deliver/attempt-result.ts";
import type { BodyFault } from "../../deliver/failure.ts";
import { freshClaim } from "../../model/batch.ts";
import { newTask } from "../../stores/store.testing.ts";
import { UnreadBodies } from "./unread-body.ts";

const NOW = 1_800_000_000_000;
const policy: Policy = resolvePolicy({ maxAttempts: 2, initialDelayMs: 100, jitterType: "NONE" });

const resultOf = (bodyFault: BodyFault) =>
  notStarted({ kind: "fault" }, { errorClass: "body-unavailable", errorMessage: "why", bodyFault });

/** The arguments of a settle. */
function argumentsOf(taskId: string, result: AttemptResult, attemptNumber = 1) {
  const ending = endingOf(taskId, attemptNumber);
  const claim = { task: ending.task, startedAt: NOW, waits: [] };
  return [claim, ending, result] as const;
}

function endingOf(taskId: string, attemptNumber = 1) {
  const task = { ...freshClaim(newTask({ taskId }), 1, NOW), attemptNumber };
  return { task, policy, gates: {}, now: NOW, random: seededRandom(1) };
}

it("a task waits ten times for a blob store that does not respond, then it is a dead letter", () => {
  const bodies = new UnreadBodies();
  const settle = () =>
    bodies.settleOf(...argumentsOf("a", resultOf({ kind: "unavailable", isSent: false })));
  const waits = Array.from({ length: 10 }, settle);
  expect(waits.map(({ nextAttemptAt }) => nextAttemptAt - NOW)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000,
  ]);
  for (const wait of waits) {
    expect(wait).toMatchObject({ status: "PENDING", attempt: null, lastError: "why" });
  }
  expect(settle()).toMatchObject({
    status: "EXHAUSTED",
    reason: "body-unavailable",
    attempt: null,
    lastError: "why",
  });
  // Another task has waits of its own, and a redriven one begins again.
  const other = bodies.settleOf(
    ...argumentsOf("b", resultOf({ kind: "unavailable", isSent: false })),
  );
  expect(other.nextAttemptAt - NOW).toBe(1000);
  expect(settle().nextAttemptAt - NOW).toBe(1000);
});

it.each(["missing", "corrupt"] as const)("a %s body makes a dead letter at once", (kind) => {
  const settled = new UnreadBodies().settleOf(
    ...argumentsOf("a", resultOf({ kind, isSent: false })),
  );
  expect(settled).toMatchObject({ status: "EXHAUSTED", reason: "body-unavailable", attempt: null });
});

it("a request that was sent in part is an attempt, and is repeated only within the policy", () => {
  const bodies = new UnreadBodies();
  const broken = resultOf({ kind: "unavailable", isSent: true });
  const first = bodies.settleOf(...argumentsOf("a", broken));
  expect(first).toMatchObject({
    status: "PENDING",
    nextAttemptAt: NOW + 100,
    lane: "retry",
    attempt: { attemptNumber: 1, errorClass: "body-unavailable" },
  });
  const last = bodies.settleOf(...argumentsOf("a", broken, 2));
  expect(last).toMatchObject({ status: "EXHAUSTED", reason: "attempts" });
  const corrupt = bodies.settleOf(...argumentsOf("a", resultOf({ kind: "corrupt", isSent: true })));
  expect(corrupt).toMatchObject({ status: "EXHAUSTED", reason: "body-unavailable" });
  expect(corrupt.attempt).toMatchObject({ attemptNumber: 1 });
});
