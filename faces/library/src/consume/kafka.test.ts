/**
 * Tests of the retry topics of a policy: names, delays and which attempt uses which topic.
 * Tests of the records of a partition: which may start, and up to where all have ended.
 */
import { compilePolicy, type PolicyDocument, resolvePolicy } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type HeldRecord, type KafkaOrder, KafkaPartition, tiers } from "./kafka.ts";
import type { KafkaRecord } from "./kafka-client.ts";
import { freshState } from "./message.ts";

describe("kafka tiers", () => {
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
      const { tierOf } = tiers(
        { delaysMs: [5000, 60_000, 5000], totalBudgetMs: 86_400_000 },
        PLACE,
      );
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
    [
      { topic: "t", group: "g", maxTiers: 0 },
      "maxTiers must be a whole number from 1 to 100, got 0",
    ],
  ])("refuses %o", (options, text) => {
    expect(() => tiers("default", options)).toThrow(text);
  });
});

describe("kafka partition", () => {
  const PLACE = { topic: "orders", partition: 0 };

  function record(offset: number, key: string | null = null): KafkaRecord {
    const bytes = key === null ? null : new TextEncoder().encode(key);
    return { key: bytes, value: new Uint8Array(10), timestamp: "0", offset: String(offset) };
  }

  function take(partition: KafkaPartition): HeldRecord | undefined {
    const held = partition.first();
    if (held !== undefined) partition.start();
    return held;
  }

  const steps = fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant("add"), gap: fc.nat(3), key: fc.constantFrom("a", "b", null) }),
      fc.record({ kind: fc.constant("start") }),
      fc.record({ kind: fc.constantFrom("end", "putBack"), which: fc.nat(20) }),
    ),
    { maxLength: 120, size: "max" },
  );

  describe.each(["partition", "key", "none"] as const)(
    "in the order of %s",
    (order: KafkaOrder) => {
      test("the position is the first record that has not ended, and lanes keep their order", () => {
        fc.assert(
          fc.property(steps, (all) => {
            const partition = new KafkaPartition(PLACE, order, undefined);
            const open = new Map<number, string | null>();
            const running: HeldRecord[] = [];
            let next = 0;
            for (const step of all) {
              if (step.kind === "add" && "gap" in step) {
                next += step.gap;
                open.set(next, step.key);
                partition.add([record(next, step.key)], undefined);
                next++;
              } else if (step.kind === "start") {
                const held = take(partition);
                if (held !== undefined) running.push(held);
              } else if ("which" in step) {
                const [held] = running.splice(step.which, 1);
                if (held === undefined) continue;
                partition.running--;
                if (step.kind === "putBack") partition.putBack(held);
                else {
                  partition.end(held);
                  open.delete(held.offset);
                }
              }
              const [first = next] = open.keys();
              expect(partition.position).toBe(next === 0 ? undefined : first);
              expect(partition.running).toBe(running.length);
              expectOrder(order, running, open);
            }
          }),
        );
      });

      test("every record starts once, if none is put back", () => {
        fc.assert(
          fc.property(fc.array(fc.constantFrom("a", "b", null), { maxLength: 50 }), (keys) => {
            const partition = new KafkaPartition(PLACE, order, undefined);
            partition.add(
              keys.map((key, offset) => record(offset, key)),
              undefined,
            );
            const started: number[] = [];
            for (let held = take(partition); held !== undefined; held = take(partition)) {
              started.push(held.offset);
              partition.end(held);
            }
            expect(started.toSorted((a, b) => a - b)).toEqual([...keys.keys()]);
            expect(partition.position).toBe(keys.length === 0 ? undefined : keys.length);
          }),
        );
      });
    },
  );

  /** What runs is the first of its lane that has not ended. */
  function expectOrder(
    order: KafkaOrder,
    running: readonly HeldRecord[],
    open: ReadonlyMap<number, string | null>,
  ): void {
    if (order === "none") return;
    for (const { offset } of running) {
      const key = open.get(offset) ?? null;
      if (order === "key" && key === null) continue;
      const lane = [...open].filter(([, other]) => order === "partition" || other === key);
      expect(offset).toBe(Math.min(...lane.map(([one]) => one)));
    }
  }

  describe("after a rebalance", () => {
    test("records that are known are not taken again, and those behind them are", () => {
      const partition = new KafkaPartition(PLACE, "none", undefined);
      partition.add(
        [0, 1, 2].map((offset) => record(offset)),
        undefined,
      );
      const first = take(partition);
      partition.rejoin();
      partition.add(
        [0, 1, 2, 3].map((offset) => record(offset)),
        4,
      );
      const offsets: number[] = [];
      for (let held = take(partition); held !== undefined; held = take(partition)) {
        offsets.push(held.offset);
      }
      expect(offsets).toEqual([1, 2, 3]);
      expect(partition.position).toBe(0);
      if (first !== undefined) partition.end(first);
      expect(partition.position).toBe(1);
    });

    test("of a topic that was created anew, its records are taken", () => {
      const partition = new KafkaPartition(PLACE, "none", undefined);
      partition.add(
        [0, 1, 2].map((offset) => record(offset)),
        3,
      );
      const old = take(partition);
      partition.rejoin();
      partition.add([record(0)], 1);
      expect(partition.first()?.offset).toBe(0);
      // What is left of the old topic counts for nothing.
      if (old !== undefined) partition.end(old);
      expect(partition.position).toBe(0);
    });
  });

  test("an offset that goes back without a rebalance starts the partition over", () => {
    const partition = new KafkaPartition(PLACE, "partition", undefined);
    partition.add(
      [5, 6, 7].map((offset) => record(offset)),
      undefined,
    );
    partition.add([record(2)], undefined);
    expect(partition.position).toBe(2);
    expect(take(partition)?.offset).toBe(2);
  });

  test("a partition is full with many records, with large ones, and behind one that does not end", () => {
    const many = new KafkaPartition(PLACE, "none", undefined);
    many.add(
      Array.from({ length: 2000 }, (_, offset) => record(offset)),
      undefined,
    );
    expect([many.isFull, many.hasRoom]).toEqual([true, false]);
    for (let n = 0; n < 1001; n++) take(many);
    expect([many.isFull, many.hasRoom]).toEqual([false, true]);

    const large = new KafkaPartition(PLACE, "none", undefined);
    large.add([{ ...record(0), value: new Uint8Array(1_000_000) }], undefined);
    expect([large.isFull, large.hasRoom]).toEqual([true, false]);

    const stuck = new KafkaPartition(PLACE, "none", undefined);
    for (let offset = 0; offset < 10_000; offset++) {
      stuck.add([record(offset)], undefined);
      const held = take(stuck);
      if (held !== undefined && offset > 0) stuck.end(held);
    }
    expect([stuck.isFull, stuck.position]).toEqual([true, 0]);
  });
});
