/** Invariants: what holds in every world of calls, for all clients, guards, servers and phases. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Trace } from "../engine/run.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import {
  type CallsDocument,
  checkScenario,
  type PhaseDocument,
} from "../scenario/scenario-document.ts";
import { runCalls } from "./calls.ts";
import { figuresOf, sumOf } from "./report.ts";

const upTo = (max: number) => fc.integer({ min: 1, max });

const anySpan = fc.oneof(
  fc.nat({ max: 100 }),
  fc.record({ kind: fc.constant("EXPONENTIAL"), meanMs: fc.nat({ max: 100 }) }),
  fc.record({ kind: fc.constant("NORMAL"), meanMs: fc.constant(20), sdMs: fc.constant(30) }),
  fc.record({ kind: fc.constant("LOGNORMAL"), medianMs: fc.constant(10), sigma: fc.constant(2) }),
);

const anyPolicy = fc.record({
  maxAttempts: upTo(5),
  jitterType: fc.constantFrom("FULL", "EQUAL", "NONE", "PROPORTIONAL", "DECORRELATED"),
  initialDelayMs: fc.nat({ max: 300 }),
  attemptTimeoutMs: fc.integer({ min: 100, max: 2000 }),
  connectTimeoutMs: fc.constant(100),
  totalBudgetMs: fc.integer({ min: 400, max: 20_000 }),
  minCallMs: fc.constantFrom(0, 1, 100),
});

const anyDestination = fc.record(
  {
    policy: anyPolicy,
    retryBudget: fc.constantFrom(
      { ratio: 0.2 },
      { kind: "TOKENS", maxTokens: 50 },
      { kind: "GRPC" },
    ),
    breaker: fc.record({ minCalls: upTo(20), openMs: fc.constant(300), halfOpenProbes: upTo(3) }),
    concurrency: fc.constantFrom(
      { max: 4, queue: 20 },
      { algorithm: "FIXED", max: 2, queue: 50 },
      { algorithm: "GRADIENT", max: 20, queue: 5 },
      { algorithm: "VEGAS", max: 20 },
      { max: 5, maxRetries: 1, queue: 9 },
    ),
    rate: fc.constantFrom({ perSecond: 40, burst: 3 }, { throttle: true }, { adaptive: true }),
    hedge: fc.constantFrom({ after: 30 }, { after: "p95" }, { after: 20, max: 3 }),
  },
  { requiredKeys: ["policy"] },
);

const anyServer = fc.record(
  {
    capacityPerSecond: fc.constantFrom(1, 13, 90, 400),
    service: fc.constantFrom("FIXED", "EXPONENTIAL"),
    queueMs: fc.nat({ max: 3000 }),
    discipline: fc.constantFrom("FIFO", "LIFO"),
    dropsExpired: fc.boolean(),
    latency: anySpan,
    hop: anySpan,
    failureRate: fc.constantFrom(0.1, 0.5, 1),
    shards: fc.constantFrom(1, 3),
    overload: fc.constantFrom("503", "429"),
    retryAfterMs: fc.nat({ max: 4000 }),
  },
  { requiredKeys: [] },
);

const anyPhase = fc.record({
  kind: fc.constantFrom("OUTAGE", "PARTIAL", "SLOW", "CAPACITY", "FAILOVER"),
  atMs: fc.nat({ max: 6000 }),
  forMs: upTo(4000),
}) as fc.Arbitrary<PhaseDocument>;

const anyWorld = fc.record({
  clients: fc.constantFrom(
    { kind: "OPEN", ratePerSecond: 60, count: 3, untilMs: 4000 },
    { kind: "CLOSED", count: 12, jobs: 4 },
  ),
  horizonMs: fc.constant(400_000),
  patience: fc.constantFrom("fail-fast", "wait"),
  guards: fc.constantFrom("PER_CLIENT", "SHARED"),
  tiers: fc.array(fc.record({ destination: anyDestination, server: anyServer }), {
    minLength: 1,
    maxLength: 3,
  }),
  timeline: fc.array(anyPhase, { maxLength: 3 }),
}) as fc.Arbitrary<CallsDocument>;

/** Collects every event that is earlier than the one before it. */
function watch(): Trace & { readonly backwards: number[] } {
  const backwards: number[] = [];
  let last = 0;
  return {
    backwards,
    add(at) {
      // Sums of durations are not exact.
      if (!(at >= last - 1e-6)) backwards.push(at);
      last = at;
    },
    hash: () => "",
  };
}

/** Every number of a report except the series, by name. */
function numbersOf(figures: object): readonly (readonly [string, number])[] {
  return Object.entries(figures).flatMap(([name, value]): (readonly [string, number])[] => {
    if (typeof value === "number") return [[name, value]];
    return name === "series" || typeof value !== "object" || value === null
      ? []
      : [...numbersOf(value)];
  });
}

describe("invariants", () => {
  it("hold in every world: time never decreases, every call is counted, no number is NaN", () => {
    fc.assert(
      fc.property(anyWorld, fc.integer(), (document, seed) => {
        fc.pre(checkScenario(document).length === 0);
        const trace = watch();
        const figures = figuresOf(runCalls(resolveCalls(document), seed, { trace }));
        expect(trace.backwards).toEqual([]);
        const { calls, attempts, succeeded, lost, unfinished, series, latencyMs } = figures;
        expect([succeeded + lost, unfinished]).toEqual([calls, 0]);
        expect(sumOf(series.offered)).toBe(calls);
        expect(sumOf(series.attempts)).toBe(attempts);
        expect([sumOf(series.succeeded), sumOf(series.failed)]).toEqual([succeeded, lost]);
        for (const [name, value] of numbersOf(figures)) {
          expect(value >= 0 && Number.isFinite(value), `${name} is ${value}`).toBe(true);
        }
        expect(latencyMs.p50).toBeLessThanOrEqual(latencyMs.p99 + 1e-9);
        expect(latencyMs.p99).toBeLessThanOrEqual(latencyMs.max + 1e-9);
        const { totalBudgetMs } = resolveCalls(document).tiers[0]?.destination.policy ?? {};
        expect(latencyMs.max).toBeLessThanOrEqual((totalBudgetMs ?? 0) + 1e-6);
      }),
      { numRuns: 25 },
    );
  });

  it("no attempt is sent after the end of its call's budget", () => {
    // Retries wait for a slot until the last fraction of a ms of their budget.
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const trace = watch();
        const scenario = resolveCalls({
          clients: { kind: "OPEN", ratePerSecond: 400, untilMs: 4000 },
          horizonMs: 60_000,
          tiers: [
            {
              destination: {
                policy: { initialDelayMs: 200, totalBudgetMs: 600, attemptTimeoutMs: 300 },
                concurrency: { algorithm: "FIXED", max: 2, queue: 1000 },
              },
              server: { latency: { kind: "EXPONENTIAL", meanMs: 7 }, failureRate: 0.5 },
            },
          ],
        });
        runCalls(scenario, seed, { trace });
        expect(trace.backwards).toEqual([]);
      }),
      { numRuns: 20 },
    );
  });

  it("retries stay within a ratio budget, and calls in progress within a limit", () => {
    fc.assert(
      fc.property(upTo(5), fc.constantFrom(0.05, 0.1, 0.3), fc.integer(), (max, ratio, seed) => {
        const failing = resolveCalls({
          clients: { kind: "OPEN", ratePerSecond: 200, untilMs: 20_000 },
          horizonMs: 60_000,
          guards: "SHARED",
          tiers: [
            {
              destination: { retryBudget: { kind: "RATIO", ratio, minPerSecond: 0 } },
              server: { failureRate: 1 },
            },
          ],
        });
        const { calls, attempts } = figuresOf(runCalls(failing, seed));
        expect(attempts - calls).toBeLessThanOrEqual(calls * ratio + 1);
        expect(attempts - calls).toBeGreaterThan(calls * ratio * 0.8);
        const limited = resolveCalls({
          clients: { kind: "OPEN", ratePerSecond: 200, untilMs: 10_000 },
          guards: "SHARED",
          tiers: [
            {
              destination: { concurrency: { algorithm: "FIXED", max, queue: 0 } },
              server: { latency: 1000 },
            },
          ],
          windowMs: 1000,
        });
        // A call keeps its slot for a second, the length of a window.
        expect(figuresOf(runCalls(limited, seed)).peak.count).toBeLessThanOrEqual(2 * max);
      }),
      { numRuns: 10 },
    );
  });
});
