/** Calls: invariants of any world, closed forms, and agreement with the fleet engine. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tierLoad } from "../lint/lint.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import {
  type CallsDocument,
  checkScenario,
  type PhaseDocument,
} from "../scenario/scenario-document.ts";
import { runCalls } from "./calls.ts";
import { runFleet } from "./fleet.ts";
import { figuresOf } from "./report.ts";
import { simulate } from "./simulate.ts";

const AT_ONCE = { initialDelayMs: 0, jitterType: "NONE", totalBudgetMs: 3_600_000 } as const;

function open(rest: Partial<CallsDocument>): CallsDocument {
  return {
    clients: { kind: "OPEN", ratePerSecond: 100, untilMs: 20_000 },
    horizonMs: 80_000,
    ...rest,
  };
}

/** Random worlds with random guards. */
const anyScenario: fc.Arbitrary<CallsDocument> = fc.record({
  clients: fc.constantFrom(
    { kind: "OPEN", count: 3, ratePerSecond: 60, untilMs: 4000 },
    { kind: "CLOSED", count: 20, jobs: 3, think: 5 },
  ),
  horizonMs: fc.constant(200_000),
  patience: fc.constantFrom("fail-fast", "wait"),
  tiers: fc.array(
    fc.record({
      destination: fc.record(
        {
          policy: fc.record({
            maxAttempts: fc.integer({ min: 1, max: 4 }),
            attemptTimeoutMs: fc.constantFrom(100, 300),
            connectTimeoutMs: fc.constant(100),
            totalBudgetMs: fc.constantFrom(2000, 20_000),
          }),
          retryBudget: fc.constantFrom({ ratio: 0.2 }, { kind: "TOKENS" }, { kind: "GRPC" }),
          breaker: fc.constant({ minCalls: 5, openMs: 200, windowMs: 1000 }),
          concurrency: fc.constantFrom(
            { max: 5, queue: 3 },
            { algorithm: "FIXED", max: 2, queue: 50 },
          ),
          hedge: fc.constantFrom({ after: 20 }, { after: 20, max: 3 }),
          rate: fc.constantFrom(
            { perSecond: 50, burst: 5 },
            { throttle: true },
            { adaptive: true },
          ),
        },
        { requiredKeys: ["policy"] },
      ),
      server: fc.record(
        {
          capacityPerSecond: fc.constantFrom(30, 200),
          service: fc.constantFrom("FIXED", "EXPONENTIAL"),
          queueMs: fc.constantFrom(50, 5000),
          discipline: fc.constantFrom("FIFO", "LIFO"),
          dropsExpired: fc.boolean(),
          hop: fc.constantFrom(0, 2),
          failureRate: fc.constantFrom(0, 0.3, 1),
          shards: fc.constantFrom(1, 3),
          retryAfterMs: fc.constant(50),
        },
        { requiredKeys: [] },
      ),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  timeline: fc.array(
    fc.record({
      kind: fc.constantFrom("OUTAGE", "PARTIAL", "SLOW", "CAPACITY", "SPIKE", "FAILOVER"),
      atMs: fc.integer({ min: 0, max: 3000 }),
      forMs: fc.integer({ min: 1, max: 2000 }),
      mode: fc.constantFrom("FAIL_FAST", "HANG"),
    }),
    { maxLength: 3 },
  ),
}) as fc.Arbitrary<CallsDocument>;

describe("calls", () => {
  it("ends every call exactly once and never exceeds the allowed attempts, in any world", () => {
    fc.assert(
      fc.property(anyScenario, fc.integer(), (document, seed) => {
        // Spikes of closed clients are rejected.
        fc.pre(checkScenario(document).length === 0);
        const report = simulate(document, { seed });
        expect(report.unfinished).toBe(0);
        expect(report.succeeded + report.lost).toBe(report.calls);
        const reasons = Object.values(report.reasons).reduce((sum, count) => sum + count, 0);
        expect(reasons).toBe(report.lost);
        const hedges = (document.tiers ?? []).reduce((most, tier) => {
          const { hedge } = tier.destination ?? {};
          return most * (hedge ? 1 + (hedge.max ?? 1) : 1);
        }, 1);
        const most = (document.tiers ?? []).reduce((product, tier) => {
          const { policy } = tier.destination ?? {};
          return product * (typeof policy === "object" ? (policy.maxAttempts ?? 5) : 5);
        }, hedges);
        expect(report.amplification).toBeLessThanOrEqual(most);
        expect(report.fairness).toBeGreaterThan(0);
        expect(report.fairness).toBeLessThanOrEqual(1 + 1e-9);
      }),
      { numRuns: 60 },
    );
  });

  it("times out a hedge without a response, and keeps its slot until then", () => {
    // Copies are sent into an outage that hangs; their slots must become free again.
    const document: CallsDocument = {
      clients: { kind: "OPEN", count: 3, ratePerSecond: 60, untilMs: 4000 },
      horizonMs: 200_000,
      tiers: [
        {
          destination: {
            policy: { maxAttempts: 1, attemptTimeoutMs: 100, connectTimeoutMs: 100 },
            concurrency: { max: 5, queue: 3 },
            hedge: { after: 20 },
          },
          server: {},
        },
      ],
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 215, mode: "HANG" }],
    };
    for (let seed = 0; seed < 20; seed++) {
      const { unfinished, goodput } = simulate(document, { seed });
      expect(unfinished).toBe(0);
      expect(goodput).toBeGreaterThan(0.8);
    }
  });

  it("sends as many copies as the document allows, one after the other", () => {
    const copiesOf = (hedge: object) =>
      simulate({
        clients: { kind: "CLOSED", count: 1, jobs: 1 },
        tiers: [{ destination: { hedge }, server: { latency: 1000 } }],
      }).attempts;
    expect(copiesOf({ after: 100 })).toBe(2);
    expect(copiesOf({ after: 100, max: 3 })).toBe(4);
    expect(copiesOf({ after: 400, max: 10 })).toBe(3);
  });

  it("ends an attempt whose first copy failed and whose hedge gets no response", () => {
    // The first copy is refused at 25 ms, which is known at 50; the hedge arrives at 45 and hangs.
    const report = simulate({
      clients: { kind: "CLOSED", count: 1, jobs: 1 },
      tiers: [
        {
          destination: {
            policy: { maxAttempts: 1, attemptTimeoutMs: 100, connectTimeoutMs: 100 },
            hedge: { after: 20 },
          },
          server: { hop: 25 },
        },
      ],
      timeline: [
        { kind: "OUTAGE", atMs: 0, forMs: 30, mode: "FAIL_FAST" },
        { kind: "OUTAGE", atMs: 30, forMs: 1000, mode: "HANG" },
      ],
    });
    expect(report.unfinished).toBe(0);
    expect(report.reasons).toEqual({ attempts: 1 });
    expect(report.attempts).toBe(2);
  });

  it("uses the library's reason for calls that a local limit refuses", () => {
    const reasonsWith = (destination: object, server: object) =>
      simulate(open({ tiers: [{ destination, server }] })).reasons;
    const policy = { maxAttempts: 1 };
    const full = reasonsWith({ policy, concurrency: { max: 1 } }, { latency: 100 });
    const throttled = reasonsWith({ policy, rate: { throttle: true } }, { capacityPerSecond: 10 });
    expect(Object.keys(full)).toEqual(["overload"]);
    expect(Object.keys(throttled).sort()).toEqual(["attempts", "overload"]);
  });

  it.each([0, 1])("affects only the calls of shard %i if a phase names that shard", (shard) => {
    const policy = { maxAttempts: 1, attemptTimeoutMs: 1000, connectTimeoutMs: 1000 };
    const run = (server: object, phase: Omit<PhaseDocument, "atMs" | "forMs" | "shard">) =>
      simulate(
        open({
          tiers: [{ destination: { policy }, server: { shards: 4, ...server } }],
          timeline: [{ ...phase, atMs: 0, forMs: 20_000, shard }],
        }),
      );
    for (const mode of ["FAIL_FAST", "HANG"] as const) {
      const { goodput } = run({ capacityPerSecond: 1000 }, { kind: "OUTAGE", mode });
      expect(goodput).toBeCloseTo(0.75, 1);
    }
    const { mean } = run({ latency: 10 }, { kind: "SLOW", factor: 9 }).latencyMs;
    expect(mean).toBeGreaterThan(25);
    expect(mean).toBeLessThan(35);
  });

  it("gives the same report for the same seed and another for another seed", () => {
    const document = open({
      tiers: [{ server: { failureRate: 0.3, hop: { kind: "EXPONENTIAL", meanMs: 5 } } }],
    });
    expect(simulate(document, { seed: 7 })).toEqual(simulate(document, { seed: 7 }));
    expect(simulate(document, { seed: 7 }).attempts).not.toBe(
      simulate(document, { seed: 8 }).attempts,
    );
  });

  it("adds the load of the closed form, with one tier and with three", () => {
    for (const attempts of [[4], [2, 3, 2]]) {
      const tiers = attempts.map((maxAttempts, index) => ({
        destination: { policy: { ...AT_ONCE, maxAttempts } },
        server: index === attempts.length - 1 ? { failureRate: 0.5, hop: 1 } : { hop: 1 },
      }));
      const { amplification } = simulate(open({ tiers }), { seed: 3 });
      expect(Math.abs(amplification / tierLoad(attempts, 0.5) - 1)).toBeLessThan(0.06);
    }
  });

  it("serves no more than the capacity, and queues the rest up to its bound", () => {
    const server = { capacityPerSecond: 50, queueMs: 500 };
    const report = simulate(
      open({ tiers: [{ destination: { policy: { maxAttempts: 1 } }, server }] }),
    );
    expect(report.succeeded / 20).toBeGreaterThan(48);
    expect(report.succeeded / 20.5).toBeLessThanOrEqual(50.5);
    expect(report.latencyMs.max).toBeLessThanOrEqual(540);
  });

  it("refuses in a failing outage, hangs in a hanging one", () => {
    const outage = (mode: "FAIL_FAST" | "HANG") =>
      simulate(
        open({
          tiers: [
            {
              destination: {
                policy: { maxAttempts: 1, attemptTimeoutMs: 500, connectTimeoutMs: 500 },
              },
              server: {},
            },
          ],
          timeline: [{ kind: "OUTAGE", mode, atMs: 5000, forMs: 5000 }],
        }),
        { seed: 2 },
      );
    expect(outage("FAIL_FAST").goodput).toBeCloseTo(0.75, 1);
    expect(outage("HANG").goodput).toBeCloseTo(0.75, 1);
    expect(outage("HANG").doneAtMs).toBeGreaterThan(19_000);
  });

  it("gives a closed client one call at a time", () => {
    const report = simulate({
      clients: { kind: "CLOSED", count: 4, jobs: 10 },
      tiers: [{ server: { latency: 100 } }],
      windowMs: 100,
    });
    expect(report.calls).toBe(40);
    expect(report.doneAtMs).toBe(1000);
    expect(report.peak.count).toBe(4);
  });

  it("holds a call with patience wait while the circuit is open instead of losing it", () => {
    const document = open({
      patience: "wait",
      clients: { kind: "OPEN", ratePerSecond: 50, untilMs: 10_000 },
      tiers: [
        {
          destination: {
            policy: { maxAttempts: 10, totalBudgetMs: 60_000 },
            breaker: { minCalls: 10, windowMs: 2000, openMs: 500 },
          },
          server: { hop: 1 },
        },
      ],
      timeline: [{ kind: "OUTAGE", atMs: 3000, forMs: 4000 }],
    });
    const patient = simulate(document);
    const hasty = simulate({ ...document, patience: "fail-fast" });
    expect(patient.goodput).toBeGreaterThan(hasty.goodput);
    expect(hasty.reasons["circuit-open"]).toBeGreaterThan(0);
  });

  it("agrees with the fleet engine on a scenario that both can run", () => {
    const scenario = resolveCalls({
      clients: { kind: "CLOSED", count: 3000, jobs: 1 },
      tiers: [
        {
          destination: { policy: { maxAttempts: 12, maxDelayMs: 20_000, totalBudgetMs: 600_000 } },
          server: { capacityPerSecond: 600, queueMs: 1000 },
        },
      ],
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 8000 }],
    });
    const fleet = figuresOf(runFleet(scenario, 1, undefined));
    const calls = figuresOf(runCalls(scenario, 1));
    expect(Math.abs(fleet.amplification / calls.amplification - 1)).toBeLessThan(0.02);
    expect(Math.abs(fleet.doneAtMs / calls.doneAtMs - 1)).toBeLessThan(0.05);
    expect([fleet.goodput, calls.goodput]).toEqual([1, 1]);
  });

  it("reports increasing progress without changing the result", () => {
    const document: CallsDocument = {
      clients: { kind: "OPEN", ratePerSecond: 2000 },
      horizonMs: 60_000,
      tiers: [{ server: { capacityPerSecond: 3000 } }],
    };
    const shares: number[] = [];
    const watched = simulate(document, { seed: 1, onProgress: (share) => shares.push(share) });
    expect(watched).toEqual(simulate(document, { seed: 1 }));
    expect(shares.length).toBeGreaterThan(1);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
    expect(Math.min(...shares)).toBeGreaterThan(0);
    expect(Math.max(...shares)).toBeLessThanOrEqual(1);
  });
});
