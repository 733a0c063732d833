/** Schedule, coverage and herd: what one policy does to one call, many calls, a herd. */
import { compiledPolicyOf, presets, resolvePolicy, seededRandom } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { coverage } from "./coverage.ts";
import { herd } from "./herd.ts";
import { anyPolicy } from "./policy.testing.ts";
import { schedule } from "./schedule.ts";

describe("schedule", () => {
  it("is core's kernel on the call's stream, wait by wait", () => {
    const policy = { maxAttempts: 6, initialDelayMs: 100 };
    const { waits, sumMs, endedBy } = schedule(policy, { seed: 9, callId: "a" });
    const random = seededRandom(9).fork("a");
    const kernel = compiledPolicyOf(resolvePolicy(policy));
    expect(waits.map((wait) => wait.delayMs)).toEqual(
      [1, 2, 3, 4, 5].map((n) => kernel.delayMs(n, 0, random.next())),
    );
    expect(waits.map((wait) => wait.ceilingMs)).toEqual([100, 200, 400, 800, 1600]);
    expect([waits.at(-1)?.sumMs, endedBy]).toEqual([sumMs, "attempts"]);
  });

  it("keeps every wait in its range and the sum within the budget", () => {
    fc.assert(
      fc.property(anyPolicy, fc.integer(), (policy, seed) => {
        const { waits, sumMs, attempts } = schedule(policy, { seed });
        for (const wait of waits) {
          expect(wait.delayMs).toBeGreaterThanOrEqual(wait.lowMs);
          expect(wait.delayMs).toBeLessThanOrEqual(wait.highMs);
        }
        expect(sumMs).toBeLessThanOrEqual(resolvePolicy(policy).totalBudgetMs);
        expect(attempts).toBe(waits.length + 1);
      }),
    );
  });

  it("never comes earlier than a hint asks, and spreads what comes after", () => {
    fc.assert(
      fc.property(
        anyPolicy,
        fc.integer(),
        fc.integer({ min: 1, max: 60_000 }),
        (policy, seed, ms) => {
          const { waits, sumMs, attempts, endedBy } = schedule(policy, { seed, retryAfterMs: ms });
          const { respectRetryAfter, maxRetryAfterMs, totalBudgetMs } = resolvePolicy(policy);
          const hintMs = respectRetryAfter ? Math.min(ms, maxRetryAfterMs) : 0;
          for (const wait of waits) {
            expect(wait.lowMs).toBeGreaterThanOrEqual(hintMs);
            expect(wait.delayMs).toBeGreaterThanOrEqual(wait.lowMs);
            expect(wait.delayMs).toBeLessThanOrEqual(wait.highMs);
          }
          expect(sumMs).toBeLessThanOrEqual(totalBudgetMs);
          expect(attempts).toBe(waits.length + 1);
          if (hintMs >= totalBudgetMs && attempts > 1) expect(endedBy).not.toBe("attempts");
        },
      ),
    );
  });

  it("ends at once where the hint lies beyond the budget", () => {
    const policy = { totalBudgetMs: 8000 };
    expect(schedule(policy, { retryAfterMs: 9000 })).toEqual({
      waits: [],
      sumMs: 0,
      attempts: 1,
      endedBy: "retry-after",
    });
  });

  it("takes presets by name", () => {
    expect(schedule("interactive").attempts).toBe(presets.interactive.maxAttempts);
  });
});

describe("coverage", () => {
  it("falls as the outage grows, but for chance", () => {
    // Both are samples, of different draws: five standard errors of their difference.
    const samples = 2000;
    const chance = 5 * Math.sqrt(0.5 / samples);
    fc.assert(
      fc.property(anyPolicy, fc.nat({ max: 20_000 }), fc.nat({ max: 20_000 }), (policy, a, b) => {
        const options = { samples, seed: 1 };
        const short = coverage(policy, Math.min(a, b), options);
        const long = coverage(policy, Math.max(a, b), options);
        expect(long).toBeLessThanOrEqual(short + chance);
      }),
    );
  });

  it("counts what the total budget cuts off", () => {
    const policy = {
      maxAttempts: 10,
      initialDelayMs: 1000,
      jitterType: "NONE",
      totalBudgetMs: 8000,
    } as const;
    expect(coverage(policy, 7000)).toBe(1);
    expect(coverage(policy, 8000)).toBe(0);
    expect(coverage({ maxAttempts: 1 }, 0)).toBe(1);
    expect(() => coverage(policy, 7000, { attemptMs: Number.NaN })).toThrow(
      /attemptMs must be 0 to/,
    );
  });
});

describe("herd", () => {
  it("counts every retry once", () => {
    const { retries, arrivals, peak, clients } = herd(
      { maxAttempts: 5, initialDelayMs: 100 },
      { clients: 500 },
    );
    expect(retries).toBe(2000);
    expect(arrivals.reduce((sum, count) => sum + count, 0)).toBe(2000);
    expect(peak.share).toBe(peak.count / clients);
  });

  it("without jitter is one client, as many times", () => {
    fc.assert(
      fc.property(anyPolicy, fc.integer({ min: 2, max: 999 }), (policy, clients) => {
        const plain = { ...policy, jitterType: "NONE" } as const;
        const all = herd(plain, { clients, windowMs: 7 });
        const one = herd(plain, { clients: 1, windowMs: 7 });
        expect(all.retries).toBe(one.retries * clients);
        expect(all.peak).toEqual({ ...one.peak, count: one.peak.count * clients });
        expect([...all.arrivals]).toEqual([...one.arrivals].map((count) => count * clients));
      }),
    );
  });

  it("finds a comb beyond the windows it shows", () => {
    const comb = herd(
      { delaysMs: [5_000_000], jitterType: "NONE", totalBudgetMs: 10_000_000 },
      { clients: 10, windowMs: 1 },
    );
    expect(comb.peak).toEqual({ count: 10, share: 1, atMs: 5_000_000 });
  });
});
