/** Guarded fleet: gives the result of the general engine, for all guards. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type CallsScenario, resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { runCalls } from "./calls.ts";
import { isFleet, runFleet } from "./fleet.ts";
import { simulate, traceHash } from "./simulate.ts";
import { ATTEMPTS, FAILED, OFFERED, SUCCEEDED, type Tally } from "./tally.ts";

const upTo = (max: number) => fc.integer({ min: 1, max });

const anyPolicy = fc.record({
  maxAttempts: upTo(6),
  initialDelayMs: fc.nat({ max: 400 }),
  jitterType: fc.constantFrom("FULL", "EQUAL", "NONE", "DECORRELATED"),
  attemptTimeoutMs: fc.integer({ min: 200, max: 1500 }),
  connectTimeoutMs: fc.constant(100),
  totalBudgetMs: fc.integer({ min: 700, max: 40_000 }),
  minCallMs: fc.constantFrom(0, 1, 50),
});

const anyRate = fc.constantFrom(
  { perSecond: 40, burst: 3 },
  { perSecond: 700 },
  { throttle: true },
  { throttle: { k: 1.1, windowMs: 2000 } },
  { adaptive: true },
  { perSecond: 90, burst: 1, throttle: true, adaptive: true },
);

const anyDestination = fc.record(
  {
    policy: anyPolicy,
    retryBudget: fc.constantFrom(
      { ratio: 0.2 },
      { ratio: 0.5, minPerSecond: 0, windowMs: 1000 },
      { kind: "TOKENS", maxTokens: 50 },
      { kind: "GRPC" },
    ),
    breaker: fc.record({
      minCalls: upTo(20),
      openMs: fc.constantFrom(50, 300, 2000),
      halfOpenProbes: upTo(3),
      windowMs: fc.constantFrom(500, 10_000),
    }),
    concurrency: fc.constantFrom(
      { max: 4, queue: 20 },
      { algorithm: "FIXED", max: 2, queue: 50 },
      { algorithm: "FIXED", max: 10, maxRetries: 0, queue: 5 },
      { algorithm: "GRADIENT", max: 20, queue: 5 },
      { algorithm: "VEGAS", max: 20, maxRetries: 2, queue: 30 },
    ),
    rate: anyRate,
    retryAfterGate: fc.constantFrom({}, { maxGateMs: 300 }),
  },
  { requiredKeys: ["policy"] },
);

const anyServer = fc.record(
  {
    capacityPerSecond: fc.constantFrom(7.3, 31.7, 101.3, 500, 2000),
    queueMs: fc.nat({ max: 150 }),
    latency: fc.constantFrom(0, 0.37, 5, 20.3, 100),
    failureRate: fc.constantFrom(0.1, 0.5, 1),
    overload: fc.constantFrom("503", "429"),
    retryAfterMs: fc.nat({ max: 2000 }),
  },
  { requiredKeys: [] },
);

const anyPhase = fc.record({
  kind: fc.constantFrom("OUTAGE", "PARTIAL"),
  mode: fc.constantFrom("FAIL_FAST", "HANG"),
  atMs: fc.constantFrom(0, 0, 50, 300),
  forMs: upTo(3000),
});

const anyFleet = fc
  .record({
    clients: fc.record({
      kind: fc.constant("CLOSED"),
      count: upTo(60),
      jobs: fc.constant(1),
      startSpreadMs: fc.constantFrom(0, 1000, 777),
    }),
    guards: fc.constantFrom("SHARED", "PER_CLIENT"),
    patience: fc.constantFrom("fail-fast", "wait"),
    tiers: fc.tuple(fc.record({ destination: anyDestination, server: anyServer })),
    timeline: fc.array(anyPhase, { maxLength: 2 }),
  })
  .map((document) => resolveCalls(document as CallsDocument))
  .filter((scenario) => isFleet(scenario) && isGuarded(scenario));

function isGuarded({ tiers }: CallsScenario): boolean {
  const { policy, idempotent, hedge, ...guards } = tiers[0]?.destination ?? {};
  return Object.values(guards).some(Boolean);
}

/** The counts that must be equal in both engines, including the series. */
function countsOf(tally: Tally) {
  const { calls, attempts, succeeded, lost, reasons, waitedMs, doneAtMs, peak, lanes } = tally;
  const lists = [OFFERED, ATTEMPTS, SUCCEEDED, FAILED].map((lane) => trimmed(lanes[lane] ?? []));
  const ended = { succeeded, lost, reasons: Object.fromEntries(reasons), doneAtMs };
  return { calls, attempts, ...ended, waitedMs, peak, lists };
}

/** The series without the empty bins at the end. */
function trimmed(counts: ArrayLike<number>): number[] {
  const list = Array.from(counts);
  return list.slice(0, list.findLastIndex((count) => count > 0) + 1);
}

describe("guarded fleet", () => {
  it("counts what the general engine counts, at the same instants", () => {
    fc.assert(
      fc.property(anyFleet, fc.integer(), (scenario, seed) => {
        const fleet = countsOf(runFleet(scenario, seed, undefined).tally);
        expect(fleet).toEqual(countsOf(runCalls(scenario, seed).tally));
        expect(fleet.succeeded + fleet.lost).toBe(scenario.clients.count);
      }),
      { numRuns: 300 },
    );
  });

  it("supports waits longer than the wheel's range", () => {
    const scenario = resolveCalls({
      clients: { kind: "CLOSED", count: 50, jobs: 1, startSpreadMs: 70_000 },
      tiers: [
        {
          destination: {
            policy: {
              maxAttempts: 8,
              initialDelayMs: 20_000,
              maxDelayMs: 100_000,
              jitterType: "NONE",
              totalBudgetMs: 3_600_000,
            },
            concurrency: { algorithm: "FIXED", max: 3, queue: 100 },
          },
          server: { latency: 7, failureRate: 0.5 },
        },
      ],
    });
    expect(isFleet(scenario)).toBe(true);
    const fleet = countsOf(runFleet(scenario, 1, undefined).tally);
    expect(fleet).toEqual(countsOf(runCalls(scenario, 1).tally));
  });

  it("runs fleets with guards, and repeats a seed", () => {
    const document: CallsDocument = {
      clients: { kind: "CLOSED", count: 2000, jobs: 1 },
      guards: "SHARED",
      tiers: [
        {
          destination: {
            policy: { maxAttempts: 12, totalBudgetMs: 600_000 },
            concurrency: { algorithm: "FIXED", max: 50, queue: 5000 },
            retryBudget: { ratio: 0.5 },
          },
          server: { capacityPerSecond: 400, queueMs: 1000 },
        },
      ],
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 3000 }],
    };
    const report = simulate(document);
    expect(report.engine).toBe("fleet");
    expect(report.succeeded + report.lost).toBe(2000);
    expect(simulate(document)).toEqual(report);
    expect(traceHash(document)).toBe(traceHash(document));
    expect(traceHash(document)).not.toBe(traceHash(document, 2));
  });
});
