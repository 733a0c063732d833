/** Fleet: runs only scenarios that it can simulate exactly, and counts every client. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { runCalls } from "./calls.ts";
import { isFleet } from "./fleet.ts";
import { figuresOf } from "./report.ts";
import { simulate } from "./simulate.ts";

const FLEET: CallsDocument = {
  clients: { kind: "CLOSED", count: 1000, jobs: 1 },
  tiers: [
    {
      destination: { policy: { maxAttempts: 6 } },
      server: { capacityPerSecond: 500, queueMs: 500 },
    },
  ],
  timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 1000 }],
};

describe("fleet", () => {
  it("accepts only scenarios that it can simulate exactly", () => {
    const [tier] = FLEET.tiers ?? [];
    const is = (change: Partial<CallsDocument>) => isFleet(resolveCalls({ ...FLEET, ...change }));
    expect(is({})).toBe(true);
    expect(is({ clients: { kind: "CLOSED", count: 10 } })).toBe(false);
    expect(is({ clients: { kind: "OPEN", ratePerSecond: 10 } })).toBe(false);
    expect(is({ tiers: [{ ...tier, server: { capacityPerSecond: 500 } }] })).toBe(false);
    expect(is({ tiers: [{ ...tier, destination: { hedge: {} } }] })).toBe(false);
    expect(is({ tiers: [{ ...tier, destination: { retryBudget: {} } }] })).toBe(true);
    // Successes that take no time come after failures of the same instant.
    expect(is({ tiers: [{ destination: { retryBudget: {} } }] })).toBe(false);
    // The compiled policy does not support hints.
    const hinting = { ...tier, server: { ...tier?.server, retryAfterMs: 100 } };
    expect(is({ tiers: [hinting] })).toBe(false);
    expect(is({ tiers: [{ ...hinting, destination: { retryAfterGate: {} } }] })).toBe(true);
    expect(is({ timeline: [{ kind: "OUTAGE", mode: "HANG", atMs: 0, forMs: 5 }] })).toBe(false);
    expect(is({ timeline: [{ kind: "FAILOVER", atMs: 0, forMs: 5 }] })).toBe(false);
    expect(is({ timeline: [{ kind: "CAPACITY", atMs: 0, forMs: 5 }] })).toBe(false);
    // There would be calls in the queue.
    expect(is({ timeline: [{ kind: "OUTAGE", atMs: 5, forMs: 5 }] })).toBe(false);
  });

  it("counts every client, also with partial outages and spread starts", () => {
    const report = simulate({
      ...FLEET,
      clients: { kind: "CLOSED", count: 1000, jobs: 1, startSpreadMs: 2000 },
      timeline: [
        { kind: "PARTIAL", share: 0.5, atMs: 0, forMs: 1500 },
        { kind: "OUTAGE", atMs: 0, forMs: 500 },
      ],
    });
    expect(report.engine).toBe("fleet");
    expect(report.succeeded + report.lost).toBe(1000);
    expect(report.series.offered.reduce((sum, count) => sum + count, 0)).toBe(1000);
    expect(report.series.attempts.reduce((sum, count) => sum + count, 0)).toBe(report.attempts);
  });

  it("measures how long its clients wait, as the general engine does", () => {
    const policy = { maxAttempts: 6, jitterType: "NONE", initialDelayMs: 100 } as const;
    const fleet: CallsDocument = { ...FLEET, tiers: [{ destination: { policy } }] };
    // 100 + 200 + 400 + 800: the fifth attempt comes after the outage of 1 s.
    expect(simulate(fleet)).toMatchObject({ engine: "fleet", meanWaitMs: 1500 });
    const general = simulate({
      ...fleet,
      tiers: [{ destination: { policy }, server: { hop: 1 } }],
    });
    expect(general).toMatchObject({ engine: "calls", meanWaitMs: 1500 });
  });

  it("gives the result of the general engine for a policy without randomness", () => {
    const upTo = (max: number) => fc.integer({ min: 1, max });
    const anyFleet = fc.record({
      maxAttempts: upTo(8),
      initialDelayMs: upTo(500),
      totalBudgetMs: fc.integer({ min: 600, max: 20_000 }),
      attemptTimeoutMs: fc.integer({ min: 100, max: 3000 }),
      latency: upTo(2000),
      startSpreadMs: fc.constantFrom(0, 1000),
      mode: fc.constantFrom("FAIL_FAST", "HANG"),
      forMs: upTo(8000),
    });
    fc.assert(
      fc.property(anyFleet, ({ latency, startSpreadMs, mode, forMs, ...rest }) => {
        const policy = { ...rest, jitterType: "NONE", connectTimeoutMs: 100 } as const;
        const document: CallsDocument = {
          clients: { kind: "CLOSED", count: 20, jobs: 1, startSpreadMs },
          tiers: [{ destination: { policy }, server: { latency } }],
          timeline: [{ kind: "OUTAGE", mode, atMs: 0, forMs }],
        };
        const { reasons, ...fleet } = simulate(document);
        const general = figuresOf(runCalls(resolveCalls(document), 1));
        expect(fleet).toMatchObject({
          attempts: general.attempts,
          succeeded: general.succeeded,
          lost: general.lost,
          doneAtMs: general.doneAtMs,
        });
        expect(reasons).toEqual(general.reasons);
      }),
    );
  });

  it("queues as the general engine does, however long a service takes", () => {
    const upTo = (max: number) => fc.integer({ min: 1, max });
    const anyQueue = fc.record({
      policy: fc.record({
        maxAttempts: upTo(6),
        initialDelayMs: upTo(400),
        attemptTimeoutMs: fc.integer({ min: 100, max: 1000 }),
        connectTimeoutMs: fc.constant(100),
        jitterType: fc.constant("NONE"),
      }),
      server: fc.record({
        capacityPerSecond: fc.constantFrom(7.3, 31.7, 101.3, 500),
        queueMs: fc.nat({ max: 150 }),
        latency: fc.constantFrom(0, 0.37, 90.3, 400.1),
      }),
      phase: fc.record({
        kind: fc.constantFrom("OUTAGE", "CAPACITY", "PARTIAL"),
        atMs: fc.constantFrom(0, 50, 300),
        forMs: upTo(2000),
      }),
      count: upTo(40),
    });
    fc.assert(
      fc.property(anyQueue, ({ policy, server, phase, count }) => {
        const share = phase.kind === "PARTIAL" ? { share: 1 } : {};
        const document = {
          clients: { kind: "CLOSED", count, jobs: 1 },
          tiers: [{ destination: { policy }, server }],
          timeline: [{ ...phase, ...share }],
        } as CallsDocument;
        const fleet = simulate(document);
        const general = figuresOf(runCalls(resolveCalls(document), 1));
        expect(fleet.doneAtMs).toBeCloseTo(general.doneAtMs, 3);
        expect(fleet).toMatchObject({
          attempts: general.attempts,
          succeeded: general.succeeded,
          reasons: general.reasons,
        });
      }),
      { numRuns: 300 },
    );
  });

  it("fails the share of calls that the server fails at random", () => {
    const report = simulate({
      clients: { kind: "CLOSED", count: 20_000, jobs: 1 },
      tiers: [{ destination: { policy: { maxAttempts: 3 } }, server: { failureRate: 0.5 } }],
    });
    expect(report.engine).toBe("fleet");
    expect(report.goodput).toBeCloseTo(0.875, 2);
    expect(report.amplification).toBeCloseTo(1.75, 1);
  });

  it("summarizes the run in its verdict", () => {
    expect(simulate(FLEET).verdict).toMatch(/gave up, the rest done|all done/);
    const none = simulate({
      ...FLEET,
      tiers: [{ destination: { policy: { maxAttempts: 2, initialDelayMs: 0 } } }],
    });
    expect(none.verdict).toBe("no call succeeds: all attempts end within 1 s");
  });
});
