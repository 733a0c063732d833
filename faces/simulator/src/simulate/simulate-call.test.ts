/** Simulate call: agrees with a loop that awaits, attempt by attempt. */
import {
  decide,
  OPEN_GATES,
  type Outcome,
  resolvePolicy,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { anyPolicy } from "../schedule/policy.testing.ts";
import { type ScriptedOutcome, simulateCall } from "./simulate-call.ts";

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

/** The same as a library would do it: await, on a virtual clock. */
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
  it("makes the attempts of an awaiting loop, at the same instants, to the same end", async () => {
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
