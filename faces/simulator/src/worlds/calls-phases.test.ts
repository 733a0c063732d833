/**
 * Phases: phases that overlap, hang, affect one shard or lower the load do what the document says.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type {
  CallsDocument,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { simulate } from "./simulate.ts";

const ONCE = { maxAttempts: 1, attemptTimeoutMs: 1000, connectTimeoutMs: 1000 } as const;

/** 100 calls per second for 20 s with one attempt each, and a server with these phases. */
function withPhases(
  server: ServerDocument,
  timeline: readonly PhaseDocument[],
  rest: Partial<CallsDocument> = {},
) {
  return simulate({
    clients: { kind: "OPEN", ratePerSecond: 100 },
    horizonMs: 20_000,
    tiers: [{ destination: { policy: ONCE }, server }],
    timeline,
    ...rest,
  });
}

/** Calls that were lost before an instant. */
function lostBy(report: ReturnType<typeof simulate>, atMs: number): number {
  const { binMs, failed } = report.series;
  return failed.slice(0, Math.floor(atMs / binMs)).reduce((sum, count) => sum + count, 0);
}

describe("phases", () => {
  it("have the same effect in any order", () => {
    const phase = fc.record({
      kind: fc.constantFrom("OUTAGE", "FAILOVER"),
      mode: fc.constantFrom("FAIL_FAST", "HANG"),
      atMs: fc.integer({ min: 0, max: 3000 }),
      forMs: fc.integer({ min: 1, max: 3000 }),
    }) as fc.Arbitrary<PhaseDocument>;
    fc.assert(
      fc.property(fc.array(phase, { minLength: 2, maxLength: 4 }), (timeline) => {
        const figures = (phases: readonly PhaseDocument[]) => {
          const { series: _, ...rest } = withPhases({ capacityPerSecond: 300 }, phases);
          return rest;
        };
        expect(figures(timeline.toReversed())).toEqual(figures(timeline));
      }),
      { numRuns: 40 },
    );
  });

  it("give no response at all during a hang, not even random failures", () => {
    const hang = [{ kind: "OUTAGE", mode: "HANG", atMs: 0, forMs: 10_000 }] as const;
    for (const server of [{ failureRate: 1 }, { failureRate: 1, capacityPerSecond: 1000 }]) {
      expect(lostBy(withPhases(server, hang), 1000)).toBe(0);
    }
  });

  it("hang in a failover that hangs, with or without a queue to lose", () => {
    const away = [{ kind: "FAILOVER", mode: "HANG", atMs: 0, forMs: 10_000 }] as const;
    for (const server of [{}, { capacityPerSecond: 1000 }]) {
      const report = withPhases(server, away);
      expect(lostBy(report, 1000)).toBe(0);
      expect(report.goodput).toBeCloseTo(0.5, 1);
    }
  });

  it.each([
    [0, 0],
    [0.25, 0.25],
    [3, 3],
  ])("cause %d times the load for a spike of that factor", (factor, times) => {
    const quiet = withPhases({}, []).calls;
    const { calls } = withPhases({}, [{ kind: "SPIKE", factor, atMs: 0, forMs: 20_000 }]);
    expect(Math.abs(calls / quiet - times)).toBeLessThan(0.1);
  });

  it("let time pass even if consecutive calls take no time", () => {
    // The server or a breaker refuses calls at once, and there is no think time.
    const away = [{ kind: "OUTAGE", atMs: 100, forMs: 200 }] as const;
    const server = { latency: 10 };
    const clients = { kind: "CLOSED", count: 2 } as const;
    const refused = withPhases(server, away, { clients, horizonMs: 1000 });
    expect(refused.calls).toBe(2 * (10 + 200 + 71));
    expect(withPhases({}, [], { clients, horizonMs: 100 }).calls).toBe(202);
  });
});
