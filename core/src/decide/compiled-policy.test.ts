/** Tests of the compiled policy: its stop codes, its bounds, and its agreement with `decide`. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compiledPolicyOf, compilePolicy, STOP_ATTEMPTS, STOP_BUDGET } from "./compiled-policy.ts";
import { decide, OPEN_GATES } from "./decide.ts";
import { anyDraw, anyPolicy } from "./policy.testing.ts";
import { resolvePolicy } from "./policy.ts";

describe("stop codes", () => {
  const kernel = compilePolicy(
    resolvePolicy({ maxAttempts: 3, jitterType: "NONE", totalBudgetMs: 500 }),
  );

  test("the call stops after the last attempt, not before", () => {
    expect(kernel.next(2, 0, 100, 0)).toBe(200);
    expect(kernel.next(3, 0, 200, 0)).toBe(STOP_ATTEMPTS);
    expect(kernel.next(1_000_000, 0, 200, 0)).toBe(STOP_ATTEMPTS);
  });

  test("the wait and the minimum call must fit the rest of the budget, to the millisecond", () => {
    expect(kernel.next(1, 399, 0, 0)).toBe(100);
    expect(kernel.next(1, 400, 0, 0)).toBe(STOP_BUDGET);
    expect(kernel.next(1, 380, 0, 0, 20)).toBe(100);
    expect(kernel.next(1, 381, 0, 0, 20)).toBe(STOP_BUDGET);
  });
});

test("a policy is compiled once", () => {
  const policy = resolvePolicy({});
  expect(compiledPolicyOf(policy)).toBe(compiledPolicyOf(policy));
});

test("only a policy without jitter ignores the draw", () => {
  expect(compilePolicy(resolvePolicy({ jitterType: "NONE" })).draws).toBe(false);
  expect(compilePolicy(resolvePolicy({ jitterType: "FULL" })).draws).toBe(true);
});

test("waits are whole, finite, never negative and within the cap, for any policy and attempt", () => {
  const attempt = fc.integer({ min: 1, max: 1_000_000 });
  const previous = fc.integer({ min: 0, max: 30 * 86_400_000 });
  fc.assert(
    fc.property(anyPolicy, attempt, previous, anyDraw, fc.boolean(), (policy, n, prev, draw, t) => {
      const kernel = compilePolicy(policy);
      const wait = kernel.delayMs(n, prev, draw, t);
      const capMs = policy.maxDelayMs ?? Math.max(...policy.delaysMs);
      const spread = policy.jitterType === "PROPORTIONAL" ? 1 + policy.jitterRatio : 1;
      expect(Number.isSafeInteger(wait)).toBe(true);
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThanOrEqual(Math.floor(capMs * spread));
    }),
    { numRuns: 2000 },
  );
});

test("decide and the compiled policy agree on every policy, attempt, time and draw", () => {
  const callMs = fc.option(fc.integer({ min: 0, max: 100_000 }), { nil: undefined });
  fc.assert(
    fc.property(
      anyPolicy,
      fc.integer({ min: 1, max: 1100 }),
      fc.nat({ max: 400 * 86_400_000 }),
      fc.nat({ max: 86_400_000 }),
      anyDraw,
      callMs,
      fc.boolean(),
      (policy, attempt, elapsedMs, previousDelayMs, draw, estimate, throttled) => {
        const gates = estimate === undefined ? OPEN_GATES : { estimatedCallMs: estimate };
        const random = { next: () => draw, fork: () => random };
        const history = { attempt, startedAt: 1000, previousDelayMs };
        const verdict = throttled ? "throttled" : "transient";
        const decision = decide(
          policy,
          {},
          history,
          { kind: "thrown", verdict },
          gates,
          1000 + elapsedMs,
          random,
        );
        const code = compiledPolicyOf(policy).next(
          attempt,
          elapsedMs,
          previousDelayMs,
          draw,
          estimate ?? 0,
          throttled,
        );
        if (code === STOP_ATTEMPTS) expect(decision).toMatchObject({ reason: "attempts" });
        else if (code === STOP_BUDGET) expect(decision).toMatchObject({ reason: "budget" });
        else expect(decision).toMatchObject({ kind: "retry", delayMs: code, ownDelayMs: code });
      },
    ),
    { numRuns: 2000 },
  );
});
