/**
 * Tests of the limits under which an attempt runs.
 * Tests of the waits of an attempt after it was due.
 * Tests of attempts whose stored body cannot be read: how long the task waits, and how it ends.
 */
import { type Policy, resolvePolicy, seededRandom, virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AttemptResult, notStarted } from "../deliver/attempt.ts";
import type { BodyFault } from "../deliver/failure.ts";
import { freshClaim } from "../model/batch.ts";
import { MIN_WAIT_MS, NO_WAITS } from "../model/task.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { newTask, pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import type { Hold } from "./lanes.ts";
import { type Deliver, UnreadBodies, UnreadSecrets, waitsOf } from "./runner.ts";

/** The limits of the first attempt of a task with that deadline. */
async function limitsWith(deadlineAt: number | null): Promise<Parameters<Deliver>[1] | undefined> {
  const clock = virtualClock(T0);
  const store = memoryStore();
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  const document = { attemptTimeoutMs: 10_000, connectTimeoutMs: 3000, totalBudgetMs: 60_000 };
  await store.addPolicy({ ...policy, document: JSON.stringify(document) });
  const limits: Parameters<Deliver>[1][] = [];
  const engine = await Engine.open({
    clock,
    random: seededRandom("limits"),
    store,
    nodeId: "node-1",
    deliver: (_, given, done) => {
      limits.push(given);
      done(notStarted({ kind: "success" }, null));
    },
  });
  await engine.start();
  const nothing = () => {};
  engine.create(pinnedTask({ createdAt: T0, scheduledAt: T0, deadlineAt }), null, nothing, nothing);
  await clock.advance(10);
  return limits[0];
}

it("an attempt takes no longer than its task has left", async () => {
  const full = { attemptTimeoutMs: 10_000, connectTimeoutMs: 3000 };
  expect(await limitsWith(null)).toMatchObject(full);
  expect(await limitsWith(T0 + 30_000)).toMatchObject(full);
  const short = await limitsWith(T0 + 500);
  expect(short).toMatchObject({ attemptTimeoutMs: 500, connectTimeoutMs: 500 });
});

const held = (by: Hold["by"], since: number, before?: Hold): Hold => ({ by, since, before });

describe("the waits of an attempt", () => {
  it("are none, without a new object, if it started on time", () => {
    const times = { dueAt: 1000, claimedAt: 995, startedAt: 1000 + MIN_WAIT_MS - 1 };
    expect(waitsOf(undefined, times)).toBe(NO_WAITS);
    expect(waitsOf(held("rate", 900), times)).toBe(NO_WAITS);
  });

  it("name each guard that held it, for as long as it held, and the rest is late", () => {
    const hold = held("concurrency", 9000, held("circuit-open", 2000, held("pause", 100)));
    const times = { dueAt: 1000, claimedAt: 9200, startedAt: 9700 };
    expect(waitsOf(hold, times)).toEqual([
      { cause: "pause", sinceAt: 1000, durationMs: 1000 },
      { cause: "circuit-open", sinceAt: 2000, durationMs: 7000 },
      { cause: "concurrency", sinceAt: 9000, durationMs: 200 },
      { cause: "late", sinceAt: 9200, durationMs: 500 },
    ]);
  });

  it("are late as a whole if no guard held it, for example after the service was down", () => {
    const times = { dueAt: 1000, claimedAt: 8000, startedAt: 9000 };
    expect(waitsOf(undefined, times)).toEqual([{ cause: "late", sinceAt: 1000, durationMs: 8000 }]);
  });

  it("never overlap, are in order, and lie between the due instant and the start", () => {
    const causes = fc.constantFrom<Hold["by"]>("rate", "pause", "circuit-open");
    const steps = fc.array(fc.tuple(causes, fc.nat(2000)), { maxLength: 8 });
    fc.assert(
      fc.property(
        steps,
        fc.nat(5000),
        fc.nat(5000),
        fc.nat(1000),
        (list, dueAt, heldMs, lateMs) => {
          let at = 0;
          let hold: Hold | undefined;
          for (const [by, ms] of list) {
            at += ms;
            hold = held(by, at, hold);
          }
          const claimedAt = Math.max(at, dueAt) + heldMs;
          const startedAt = claimedAt + lateMs;
          let endAt = dueAt;
          for (const wait of waitsOf(hold, { dueAt, claimedAt, startedAt })) {
            expect(wait.sinceAt).toBeGreaterThanOrEqual(endAt);
            expect(wait.durationMs).toBeGreaterThanOrEqual(MIN_WAIT_MS);
            endAt = wait.sinceAt + wait.durationMs;
          }
          expect(endAt).toBeLessThanOrEqual(startedAt);
        },
      ),
    );
  });
});

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
  const task = { ...freshClaim(newTask({ taskId }), 1, "node-1", NOW), attemptNumber };
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

it("a task whose secret cannot be read waits at most a minute at a time, as often as needed", () => {
  const secrets = new UnreadSecrets();
  const lacking = notStarted(
    { kind: "fault" },
    { errorClass: "secret-unavailable", errorMessage: "why" },
  );
  const [claim, { task }] = argumentsOf("a", lacking);
  expect(secrets.has(task)).toBe(false);
  const settles = Array.from({ length: 20 }, () => secrets.settleOf(claim, lacking, NOW));
  const waits = settles.map(({ nextAttemptAt }) => (nextAttemptAt - NOW) / 1000);
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, ...Array(14).fill(60)]);
  expect(settles.at(-1)).toMatchObject({ status: "PENDING", attempt: null, lastError: "why" });
  expect(secrets.has(task)).toBe(true);
});
