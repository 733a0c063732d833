/** Tests of the retry topics of a policy: names, delays and which attempt uses which topic. */
import { compilePolicy, type PolicyDocument, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { freshState } from "../message-state.ts";
import { tiers } from "./tiers.ts";

const PLACE = { topic: "orders", group: "billing" };

describe("the retry topics", () => {
  test("have the delays of the policy, each once", () => {
    const policy = { maxAttempts: 6, initialDelayMs: 1000, maxDelayMs: 4000 };
    const { retryTopics, deadLetterTopic } = tiers(policy, PLACE);
    expect(retryTopics).toEqual([
      { name: "orders.billing.retry-1000", delayMs: 1000 },
      { name: "orders.billing.retry-2000", delayMs: 2000 },
      { name: "orders.billing.retry-4000", delayMs: 4000 },
    ]);
    expect(deadLetterTopic).toBe("orders.billing.dead");
  });

  test("follow a list of delays", () => {
    const { tierOf } = tiers({ delaysMs: [5000, 60_000, 5000], totalBudgetMs: 86_400_000 }, PLACE);
    const delays = [1, 2, 3, 4].map((attempt) => tierOf(attempt)?.delayMs);
    expect(delays).toEqual([5000, 60_000, 5000, undefined]);
  });

  test("exist for a policy without retries too, because guards defer messages", () => {
    const { retryTopics, tierOf } = tiers({ maxAttempts: 1 }, PLACE);
    expect(retryTopics).toHaveLength(1);
    expect(tierOf(1)).toBeUndefined();
  });

  test("are at most as many as asked for, with the longest delay among them", () => {
    const { retryTopics } = tiers("background", { ...PLACE, maxTiers: 3 });
    expect(retryTopics.map(({ delayMs }) => delayMs)).toEqual([9000, 243_000, 3_600_000]);
  });
});

const policies: fc.Arbitrary<PolicyDocument> = fc.oneof(
  fc.record({
    maxAttempts: fc.integer({ min: 1, max: 100 }),
    initialDelayMs: fc.integer({ min: 0, max: 10_000 }),
    maxDelayMs: fc.integer({ min: 10_000, max: 1_000_000 }),
    backoff: fc.constantFrom("EXPONENTIAL", "LINEAR", "FIXED"),
    totalBudgetMs: fc.constant(365 * 86_400_000),
  } as const),
  fc.record({
    delaysMs: fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 1, maxLength: 50 }),
    totalBudgetMs: fc.constant(365 * 86_400_000),
  }),
);
const counts = fc.integer({ min: 1, max: 20 });

test("no attempt waits for less than its ceiling, and no more topics are used than asked for", () => {
  fc.assert(
    fc.property(policies, counts, (policy, maxTiers) => {
      const { retryTopics, tierOf } = tiers(policy, { ...PLACE, maxTiers });
      const { maxAttempts, ceilingMs } = compilePolicy(resolvePolicy(policy));
      expect(retryTopics.length).toBeLessThanOrEqual(maxTiers);
      expect(new Set(retryTopics.map(({ name }) => name)).size).toBe(retryTopics.length);
      for (let attempt = 1; attempt < maxAttempts; attempt++) {
        const tier = tierOf(attempt);
        expect(tier?.delayMs).toBeGreaterThanOrEqual(ceilingMs(attempt));
        expect(retryTopics).toContainEqual(tier);
      }
      expect(tierOf(maxAttempts)).toBeUndefined();
    }),
  );
});

test("messages of a topic are due in the order in which they were written", () => {
  fc.assert(
    fc.property(policies, fc.array(fc.nat(), { minLength: 2 }), (policy, gaps) => {
      const { retryTopics, dueAt } = tiers(policy, PLACE);
      for (const { name, delayMs } of retryTopics) {
        let timestamp = 0;
        let lastDueAt = 0;
        for (const gap of gaps) {
          timestamp += gap;
          expect(dueAt(name, timestamp)).toBe(timestamp + delayMs);
          expect(dueAt(name, timestamp)).toBeGreaterThanOrEqual(lastDueAt);
          lastDueAt = dueAt(name, timestamp);
        }
      }
    }),
    { numRuns: 30 },
  );
});

test("a message of the first topic is due at once", () => {
  expect(tiers("default", PLACE).dueAt("orders", 1000)).toBe(1000);
});

describe("a disposition", () => {
  const { placementOf, retryTopics } = tiers({ initialDelayMs: 1000, maxDelayMs: 8000 }, PLACE);
  const state = freshState(0);

  test("that acknowledges a message sends it nowhere", () => {
    expect(placementOf({ kind: "ack", isDuplicate: false }, 0)).toBeUndefined();
  });

  test("that delays a message sends it to the next longer topic", () => {
    expect(placementOf({ kind: "retry", delayMs: 1500, state }, 100)).toEqual({
      topic: "orders.billing.retry-2000",
      notBeforeAt: 1600,
    });
  });

  test("that waits for longer than every topic goes to the longest one, and waits again after it", () => {
    const placement = placementOf({ kind: "defer", by: "guard", delayMs: 99_999, state }, 100);
    expect(placement).toEqual({ topic: retryTopics.at(-1)?.name, notBeforeAt: 100_099 });
  });

  test("that ends a message sends it to the dead letters", () => {
    const dead = { kind: "dead-letter", reason: "attempts", state, error: undefined } as const;
    expect(placementOf(dead, 7)).toEqual({ topic: "orders.billing.dead", notBeforeAt: 7 });
  });
});

test.each([
  [
    { topic: "a b", group: "g" },
    'topic must be 1 to 100 characters of A-Z a-z 0-9 . _ -, got "a b"',
  ],
  [{ topic: "t", group: "" }, "group must be 1 to 100 characters"],
  [{ topic: "t", group: "g", maxTiers: 0 }, "maxTiers must be a whole number from 1 to 100, got 0"],
])("refuses %o", (options, text) => {
  expect(() => tiers("default", options)).toThrow(text);
});
