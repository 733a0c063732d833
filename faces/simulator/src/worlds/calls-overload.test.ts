/**
 * Overload: the response of a full server, its effect on policies and budgets, and the load after
 * an outage.
 */
import { type DestinationDocument, type Outcome, SUCCESS, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import {
  type CallsDocument,
  checkScenario,
  type ServerDocument,
} from "../scenario/scenario-document.ts";
import { simulate } from "./simulate.ts";
import { simulateCalls } from "./simulate-calls.ts";

/** Ten clients at once and one free slot: nine are refused. */
function crowd(destination: DestinationDocument, server: ServerDocument): CallsDocument {
  return {
    clients: { kind: "CLOSED", count: 10, jobs: 1 },
    guards: "SHARED",
    tiers: [{ destination, server: { capacityPerSecond: 1000, queueMs: 0, ...server } }],
  };
}

const TWICE = { maxAttempts: 2, jitterType: "NONE", initialDelayMs: 100 } as const;

describe("overload", () => {
  it("with a 429 leads to the policy's throttling delay, with a 503 to its normal delay", () => {
    const policy = { ...TWICE, throttleDelayMs: 5000 };
    const meanWait = (server: ServerDocument) => simulate(crowd({ policy }, server)).meanWaitMs;
    expect(meanWait({ overload: "429" })).toBe(4500);
    expect(meanWait({ overload: "503" })).toBe(90);
    expect(meanWait({})).toBe(90);
  });

  it("is never retried earlier than its Retry-After, whatever the status", () => {
    for (const overload of ["429", "503"] as const) {
      const server = { overload, retryAfterMs: 3000 };
      const { meanWaitMs } = simulate(crowd({ policy: TWICE }, server));
      expect(meanWaitMs).toBeGreaterThanOrEqual(2700);
      const ignoring = simulate(crowd({ policy: { ...TWICE, respectRetryAfter: false } }, server));
      expect(ignoring.meanWaitMs).toBe(90);
    }
  });

  it("with a 429 costs the budget's price of a throttled retry", () => {
    const retryBudget = { kind: "TOKENS", maxTokens: 20, costPerRetry: 10, costPerThrottle: 5 };
    const retries = (overload: "429" | "503") => {
      const { attempts, calls } = simulate(
        crowd({ policy: TWICE, retryBudget: { ...retryBudget, kind: "TOKENS" } }, { overload }),
      );
      return attempts - calls;
    };
    expect([retries("429"), retries("503")]).toEqual([4, 2]);
  });

  it("accepts only the statuses 429 and 503", () => {
    const [problem] = checkScenario(crowd({}, { overload: "500" as "503" }));
    expect(problem?.message).toMatch(/tiers\[0\]\.server\.overload must be one of 503, 429/);
  });
});

describe("after an outage of 30 s", () => {
  const LONG = { maxAttempts: 20, initialDelayMs: 200, maxDelayMs: 5000, totalBudgetMs: 3_600_000 };
  const serviceGuards = { breaker: {}, concurrency: {}, retryAfterGate: {} };

  it.each([
    ["FAIL_FAST", 1],
    ["FAIL_FAST", 2],
    ["HANG", 1],
    ["HANG", 2],
  ] as const)("%s, seed %d: 6,000 waiting calls cause no storm", (mode, seed) => {
    const policy = { ...LONG, attemptTimeoutMs: 5000 };
    const document: CallsDocument = {
      patience: "wait",
      guards: "SHARED",
      horizonMs: 150_000,
      clients: { kind: "OPEN", ratePerSecond: 200 },
      tiers: [
        {
          destination: { policy, retryBudget: { ratio: 0.2 }, ...serviceGuards },
          server: { capacityPerSecond: 300, latency: 20 },
        },
      ],
      timeline: [{ kind: "OUTAGE", mode, atMs: 30_000, forMs: 30_000 }],
    };
    const { peakAfter, series, lost } = simulate(document, { seed });
    // The server can serve 30 in 100 ms, and never has more than the limit of 64 to do: 213 ms.
    expect(peakAfter.count).toBeLessThanOrEqual(45);
    const recovered = Math.ceil(60_000 / series.binMs);
    expect(Math.max(...series.queueMs.slice(recovered))).toBeLessThanOrEqual(64 * (1000 / 300));
    expect(lost).toBe(0);
    // It works at its capacity until the calls that waited are served.
    const served = series.succeeded.slice(80_000 / series.binMs, 90_000 / series.binMs);
    expect(served.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(2900);
  });

  it("a server that hangs again after one good response gets one call in 100 ms, not all at once", () => {
    const failed: Outcome = { kind: "status", status: 500 };
    let sent = 0;
    const { attempts } = simulateCalls({
      destination: {
        policy: { ...LONG, maxAttempts: 1, attemptTimeoutMs: 60_000 },
        breaker: { minCalls: 20, openMs: 5000 },
        concurrency: {},
      },
      patience: "wait",
      startAt: 1_700_000_000_000,
      arrivals: [...Array(20).fill(0), ...Array(1000).fill(1000)],
      outcomeOf() {
        sent++;
        if (sent <= 20) return { outcome: failed, durationMs: 10 };
        return { outcome: SUCCESS, durationMs: sent === 21 ? 10 : 59_000 };
      },
      randomOf: (call) => seededRandom(call),
      guardRandom: seededRandom("guards"),
    });
    const closedAt = (attempts[20]?.at ?? 0) + 10;
    const within = (ms: number) =>
      attempts.slice(21).filter(({ at }) => at - closedAt <= ms).length;
    expect([within(0), within(1000), within(3000)]).toEqual([1, 11, 31]);
    // Never more than the limit.
    expect(within(50_000)).toBeLessThanOrEqual(64);
  });
});

it("calls that waited for an overloaded destination do not keep it from recovering", () => {
  const document: CallsDocument = {
    patience: "wait",
    guards: "SHARED",
    horizonMs: 200_000,
    clients: { kind: "OPEN", ratePerSecond: 600 },
    tiers: [
      {
        destination: {
          policy: { maxAttempts: 3, attemptTimeoutMs: 1000, totalBudgetMs: 30_000 },
          concurrency: {},
        },
        server: { capacityPerSecond: 800, latency: 20 },
      },
    ],
    timeline: [{ kind: "CAPACITY", atMs: 60_000, forMs: 60_000, factor: 0.2 }],
  };
  const { series } = simulate(document, { seed: 1 });
  const perSecond = (from: number, to: number) => {
    const [first, end] = [from, to].map((second) => Math.floor((second * 1000) / series.binMs));
    return series.succeeded.slice(first, end).reduce((sum, count) => sum + count, 0) / (to - from);
  };
  // At its capacity all the time, also when the first calls have waited for their whole budget: at 90 s.
  expect(perSecond(70, 120)).toBeGreaterThan(155);
  expect(perSecond(122, 180)).toBeGreaterThan(780);
});

it("after an outage, a backlog leaves at three times the usual rate, as in the library and the service", () => {
  const policy = { maxAttempts: 100, initialDelayMs: 1000, totalBudgetMs: 3_600_000 };
  const { series, unfinished } = simulate({
    patience: "wait",
    guards: "SHARED",
    horizonMs: 400_000,
    clients: { kind: "OPEN", ratePerSecond: 10 },
    tiers: [{ destination: { policy, breaker: {}, concurrency: {} }, server: { latency: 20 } }],
    timeline: [{ kind: "OUTAGE", atMs: 60_000, forMs: 150_000 }],
  });
  const from = Math.ceil(210_000 / series.binMs);
  const perSecond = [...series.attempts].map((count) => (count * 1000) / series.binMs);
  expect(Math.max(...perSecond.slice(from))).toBeLessThanOrEqual(40);
  expect(Math.max(...perSecond.slice(from))).toBeGreaterThan(20);
  // Everything that waited has left in the end.
  expect(unfinished).toBeLessThanOrEqual(3);
});
