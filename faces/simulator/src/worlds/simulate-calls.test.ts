/** Simulate calls: combined guards each keep their guarantees. */

import {
  type DestinationDocument,
  decide,
  OPEN_GATES,
  type Outcome,
  type Random,
  resolvePolicy,
  SUCCESS,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyPolicy } from "../schedule/policy.testing.ts";
import {
  type CallsOptions,
  type ScriptedOutcome,
  type SimulatedCalls,
  simulateCall,
  simulateCalls,
} from "./simulate-calls.ts";

const UNAVAILABLE = statusOutcome(503);
const START_AT = 1_700_000_000_000;
const POLICY = { initialDelayMs: 100, jitterType: "NONE" } as const;

/** A stream that always draws the same value and counts its draws. */
function constant(value: number): Random & { draws: number } {
  const stream = {
    draws: 0,
    next() {
      stream.draws++;
      return value;
    },
    fork: () => stream,
  };
  return stream;
}

type Change = Partial<Omit<CallsOptions, "destination" | "arrivals">>;

/** Every attempt succeeds after 50 ms unless the test overrides it. */
function run(
  destination: DestinationDocument,
  arrivals: readonly number[],
  change: Change = {},
): SimulatedCalls {
  return simulateCalls({
    destination: { policy: POLICY, ...destination },
    patience: "fail-fast",
    startAt: START_AT,
    arrivals,
    outcomeOf: () => ({ outcome: SUCCESS, durationMs: 50 }),
    randomOf: (call) => seededRandom(call),
    guardRandom: constant(0),
    ...change,
  });
}

const atOnce = (count: number, at = 0) => Array.from({ length: count }, () => at);
const endsAs = (outcome: Outcome, durationMs: number) => () => ({ outcome, durationMs });

/** How many calls ended for each reason. */
function reasonsOf({ ends }: SimulatedCalls): Record<string, number> {
  const reasons: Record<string, number> = {};
  for (const { reason } of ends) reasons[reason] = (reasons[reason] ?? 0) + 1;
  return reasons;
}

describe("simulateCalls", () => {
  it("sends a call when it starts, and reports how it ended", () => {
    expect(run({}, [0, 7])).toEqual({
      attempts: [
        { call: 0, attempt: 1, copy: 0, dueAt: 0, at: 0 },
        { call: 1, attempt: 1, copy: 0, dueAt: 7, at: 7 },
      ],
      ends: [
        { call: 0, at: 50, status: "SUCCEEDED", reason: "succeeded" },
        { call: 1, at: 57, status: "SUCCEEDED", reason: "succeeded" },
      ],
    });
  });

  it("retries as the policy says, and cuts off an attempt that takes too long", () => {
    const policy = { ...POLICY, maxAttempts: 3, attemptTimeoutMs: 200, connectTimeoutMs: 200 };
    const outcomeOf = (_: number, attempt: number) =>
      attempt === 1
        ? { outcome: UNAVAILABLE, durationMs: 10 }
        : { outcome: SUCCESS, durationMs: 900 };
    const { attempts, ends } = run({ policy }, [0], { outcomeOf });
    expect(attempts.map(({ at }) => at)).toEqual([0, 110, 510]);
    expect(ends).toEqual([{ call: 0, at: 710, status: "EXHAUSTED", reason: "attempts" }]);
  });

  it("at one instant ends attempts first, then sends due attempts, then starts new calls", () => {
    const concurrency = { algorithm: "FIXED", max: 1, queue: 0 } as const;
    const { attempts, ends } = run({ concurrency }, [0, 50, 60, 100]);
    expect(attempts.map(({ call, at }) => [call, at])).toEqual([
      [0, 0],
      [1, 50],
      [3, 100],
    ]);
    expect(ends.find(({ call }) => call === 2)).toMatchObject({ at: 60, reason: "overload" });
  });

  it("throttle and queue: draws once per call, when it has a slot", () => {
    const guardRandom = constant(0.5);
    const concurrency = { algorithm: "FIXED", max: 1, queue: 10 } as const;
    const made = run({ concurrency, rate: { throttle: true } }, atOnce(8), { guardRandom });
    expect(reasonsOf(made)).toEqual({ succeeded: 8 });
    expect(guardRandom.draws).toBe(8);
    expect(made.attempts.map(({ at }) => at)).toEqual([0, 50, 100, 150, 200, 250, 300, 350]);
    expect(made.attempts.slice(1).every(({ heldBy }) => heldBy === "concurrency")).toBe(true);
  });

  it("hedge and rate: copies count against the rate", () => {
    const rate = { perSecond: 10, burst: 2 };
    const arrivals = Array.from({ length: 100 }, (_, call) => 40 * call);
    const { attempts } = run({ rate, hedge: { after: 10, max: 3 } }, arrivals, {
      outcomeOf: endsAs(SUCCESS, 1000),
      patience: "wait",
    });
    expect(attempts.some(({ copy }) => copy > 0)).toBe(true);
    for (const { at: from } of attempts) {
      const sent = attempts.filter(({ at }) => at >= from && at < from + 1000);
      expect(sent.length).toBeLessThanOrEqual(rate.burst + rate.perSecond);
    }
  });

  it("hedge and throttle: losing copies do not count", () => {
    const arrivals = Array.from({ length: 50 }, (_, call) => 100 * call);
    // With K = 1 and a draw of 0, one request that was not accepted refuses every later call.
    const made = run({ rate: { throttle: { k: 1 } }, hedge: { after: 10, max: 2 } }, arrivals);
    expect(made.attempts).toHaveLength(150);
    expect(reasonsOf(made)).toEqual({ succeeded: 50 });
  });

  it("maxRetries 0 and queue: retries end at once and never block first calls", () => {
    const concurrency = { algorithm: "FIXED", max: 2, maxRetries: 0, queue: 3 } as const;
    const made = run({ concurrency }, atOnce(5), {
      outcomeOf: (call) => ({ outcome: call < 2 ? UNAVAILABLE : SUCCESS, durationMs: 50 }),
    });
    expect(made.attempts.map(({ call, at }) => [call, at])).toEqual([
      [0, 0],
      [1, 0],
      [2, 50],
      [3, 50],
      [4, 100],
    ]);
    expect(reasonsOf(made)).toEqual({ overload: 2, succeeded: 3 });
    expect(made.ends.slice(0, 2).map(({ call, at }) => [call, at])).toEqual([
      [0, 50],
      [1, 50],
    ]);
  });

  it("maxRetries and queue: a retry that waits for its slot does not block a first call", () => {
    const concurrency = { algorithm: "FIXED", max: 3, maxRetries: 1, queue: 1 } as const;
    // Two retries are due at 150: one is sent, one waits. A first call still finds a slot.
    const made = run({ concurrency }, [0, 0, 160], {
      outcomeOf: (call, attempt) => ({
        outcome: call < 2 && attempt === 1 ? UNAVAILABLE : SUCCESS,
        durationMs: 50,
      }),
    });
    const first = made.attempts.find(({ call }) => call === 2);
    expect(first).toMatchObject({ at: 160 });
    expect(reasonsOf(made)).toEqual({ succeeded: 3 });
  });

  it("rate and throttle: of 40 calls at one instant, the burst is sent and the rest is held", () => {
    const rate = { perSecond: 10, burst: 10, throttle: true };
    const made = run({ rate }, atOnce(40));
    const at0 = made.attempts.filter(({ at }) => at === 0);
    expect(at0).toHaveLength(10);
    expect(made.attempts.slice(10).every(({ heldBy }) => heldBy === "rate")).toBe(true);
    expect(made.attempts.at(-1)?.at).toBe(3000);
    expect(reasonsOf(made)).toEqual({ succeeded: 40 });
  });

  it("ratio budget and a guard that refuses: a refused call does not count as a first attempt", () => {
    const retryBudget = { ratio: 0.1, minPerSecond: 0 };
    const concurrency = { algorithm: "FIXED", max: 1, queue: 0 } as const;
    // 100 refused calls would allow 10 retries; the one that was sent allows none.
    const made = run({ retryBudget, concurrency }, atOnce(101), {
      outcomeOf: endsAs(UNAVAILABLE, 50),
    });
    expect(made.attempts).toHaveLength(1);
    expect(reasonsOf(made)).toEqual({ overload: 100, "retry-budget": 1 });
  });

  it("takes retry tokens when a retry is sent, not when it is decided", () => {
    const retryBudget = { kind: "TOKENS", maxTokens: 14, costPerRetry: 14 } as const;
    // Both retries are decided while the bucket is full; the second finds it empty when it is due.
    const { attempts, ends } = run({ retryBudget }, atOnce(2), {
      outcomeOf: endsAs(UNAVAILABLE, 50),
    });
    expect(attempts.map(({ call, at }) => [call, at])).toEqual([
      [0, 0],
      [1, 0],
      [0, 150],
    ]);
    expect(ends.map(({ call, at, reason }) => [call, at, reason])).toEqual([
      [1, 150, "retry-budget"],
      [0, 200, "retry-budget"],
    ]);
  });

  it("sends waiting calls when the breaker closes: first a probe, then the others", () => {
    const breaker = { minCalls: 2, openMs: 1000, windowMs: 1000 };
    const arrivals = [0, 0, 100, 200, 300];
    const made = run({ breaker, policy: { ...POLICY, maxAttempts: 1 } }, arrivals, {
      patience: "wait",
      outcomeOf: (call) => ({ outcome: call < 2 ? UNAVAILABLE : SUCCESS, durationMs: 50 }),
      guardRandom: constant(0.5),
    });
    const [probe, ...others] = made.attempts.slice(2);
    expect(probe).toMatchObject({ call: 2, dueAt: 100, at: 1050, heldBy: "circuit-open" });
    expect(others.map(({ call, at }) => [call, at])).toEqual([
      [3, 1100],
      [4, 1100],
    ]);
    expect(reasonsOf(made)).toEqual({ attempts: 2, succeeded: 3 });
  });

  it("holds every call after a Retry-After if the gate is on", () => {
    const made = run({ retryAfterGate: {}, policy: { ...POLICY, maxAttempts: 2 } }, [0, 100], {
      outcomeOf: (call) => ({
        outcome: call === 0 ? statusOutcome(503, 2000) : SUCCESS,
        durationMs: 50,
      }),
    });
    const second = made.attempts.find(({ call }) => call === 1);
    expect(second).toMatchObject({ dueAt: 100, at: 2050, heldBy: "retry-after" });
  });

  it("ends a waiting call when its time is over, and names the guard", () => {
    const concurrency = { algorithm: "FIXED", max: 1, queue: 5 } as const;
    const policy = { ...POLICY, totalBudgetMs: 400, attemptTimeoutMs: 400, connectTimeoutMs: 400 };
    const { ends } = run({ policy, concurrency }, [0, 10], { outcomeOf: endsAs(SUCCESS, 9000) });
    const held = { call: 1, status: "EXHAUSTED", reason: "held", by: "concurrency" };
    // The first call times out at 400; the second then has 10 ms left.
    expect(ends[0]).toMatchObject({ call: 0, at: 400 });
    expect(ends[1]).toMatchObject({ call: 1, at: 410, reason: "budget" });
    const late = run({ policy, concurrency }, [0, 0], { outcomeOf: endsAs(SUCCESS, 9000) });
    expect(late.ends[0]).toEqual({ ...held, at: 400 });
  });

  it("ends a call at once if a guard would hold it longer than its remaining time", () => {
    const policy = { ...POLICY, totalBudgetMs: 1000 };
    const made = run({ policy, rate: { perSecond: 0.5, burst: 1 } }, atOnce(2));
    expect(made.ends[0]).toEqual({
      call: 1,
      at: 0,
      status: "EXHAUSTED",
      reason: "held",
      by: "rate",
    });
  });
});

// Simulate call: makes the same attempts as a loop with await.

const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(500, 503, 429).map((status) => statusOutcome(status)) },
  { weight: 2, arbitrary: fc.nat({ max: 5000 }).map((ms) => statusOutcome(503, ms)) },
  fc.constantFrom(statusOutcome(200), statusOutcome(404)),
  fc.constant<Outcome>({ kind: "error", errorClass: "timeout", sent: true }),
);

const anyScript: fc.Arbitrary<ScriptedOutcome[]> = fc.array(
  fc.record({ outcome: anyOutcome, durationMs: fc.nat({ max: 2000 }) }),
  { minLength: 1, maxLength: 12 },
);

/** The same call as a library would make it: with await, on a virtual clock. */
async function awaited(
  policy: Parameters<typeof simulateCall>[0],
  script: readonly ScriptedOutcome[],
  seed: number,
) {
  const clock = virtualClock();
  const random = seededRandom(seed);
  const resolved = resolvePolicy(policy as object);
  const startsAt: number[] = [];
  const loop = async () => {
    let previousDelayMs = 0;
    for (let attempt = 1; ; attempt++) {
      startsAt.push(clock.now());
      const step = script[Math.min(attempt, script.length) - 1] as ScriptedOutcome;
      await clock.sleep(step.durationMs);
      const history = { attempt, startedAt: 0, previousDelayMs };
      const decision = decide(resolved, {}, history, step.outcome, OPEN_GATES, clock.now(), random);
      if (decision.kind !== "retry") return decision;
      previousDelayMs = decision.ownDelayMs;
      await clock.sleep(decision.delayMs);
    }
  };
  const end = await clock.run(loop());
  return { startsAt, endedAt: clock.now(), end };
}

describe("simulateCall", () => {
  it("makes the attempts of a loop with await, at the same instants, with the same end", async () => {
    await fc.assert(
      fc.asyncProperty(anyPolicy, anyScript, fc.integer(), async (policy, script, seed) => {
        const pushed = simulateCall(policy, script, { random: seededRandom(seed) });
        const { startsAt, endedAt, end } = await awaited(policy, script, seed);
        expect(pushed.startsAt).toEqual(startsAt);
        expect(pushed.endedAt).toBe(endedAt);
        expect(end).toEqual({ kind: "stop", status: pushed.status, reason: pushed.reason });
      }),
      { numRuns: 200 },
    );
  });
});
