/** Verdict: the numbers in the sentence always support it. */
import { expect, test } from "vitest";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { scenarios } from "../scenario/scenarios.ts";
import { simulate } from "./simulate.ts";

const classic = scenarios["metastable"] as CallsDocument;

/** The metastable scenario with one more guard. */
function guarded(guard: object): CallsDocument {
  const [tier] = classic.tiers ?? [];
  return { ...classic, tiers: [{ ...tier, destination: { ...tier?.destination, ...guard } }] };
}

test.each([
  ["no guard", {}],
  ["a retry budget", { retryBudget: {} }],
  ["a breaker", { breaker: {} }],
  ["adaptive concurrency", { concurrency: { algorithm: "AIMD", max: 200 } }],
])("the sentence does not contradict its numbers: %s", (_, guard) => {
  const { verdict } = simulate(guarded(guard), { seed: 1 });
  expect(verdict).toMatch(/^(?:never recovers|recovers )/u);
  expect(verdict).not.toMatch(verdict.startsWith("never") ? / < \d/u : / > \d/u);
});

const OPEN = { kind: "OPEN", ratePerSecond: 100 } as const;

test("a call in progress is not lost", () => {
  const report = simulate({ clients: OPEN, tiers: [{ server: { latency: 100 } }] });
  expect([report.lost, report.unfinished > 0]).toEqual([0, true]);
  expect(report.verdict).toBe("1 attempts per call; 0 % of the calls lost");
  const stuck = simulate({ clients: OPEN, tiers: [{ server: { perCallMs: 60_000 } }] });
  const share = (count: number) => `${Math.round((count / stuck.calls) * 1000) / 10} %`;
  expect(stuck.verdict).toContain(
    `; ${share(stuck.lost)} of the calls lost, ${share(stuck.unfinished)} unfinished`,
  );
});

test("a run without calls has no losses", () => {
  const report = simulate({ clients: { kind: "OPEN", ratePerSecond: 0.001 }, horizonMs: 10 });
  expect(report.verdict).toBe("0 attempts per call; 0 % of the calls lost");
});

test.each([
  [50_000, 60_000],
  [70_000, 1000],
  [50_000, 9000],
])("a run of 60 s is too short for a verdict: phase from %i ms for %i ms", (atMs, forMs) => {
  const phase = { kind: "OUTAGE", atMs, forMs } as const;
  const { verdict } = simulate({
    clients: OPEN,
    // The server recovers at once, but the run is too short to show it.
    tiers: [{ destination: { policy: { maxAttempts: 1 } } }],
    timeline: [phase],
  });
  expect(verdict).toMatch(/^the run is too short for a verdict; /u);
});

test("a fleet that is done before the outage ends has no negative recovery time", () => {
  const { verdict } = simulate({
    clients: { kind: "CLOSED", count: 10, jobs: 1 },
    timeline: [{ kind: "OUTAGE", atMs: 5000, forMs: 1000 }],
  });
  expect(verdict).toMatch(/^all done before it ends; /u);
});

test.each(["CLOSED", "OPEN"] as const)(
  "a run in which no call succeeds does not recover, whatever its goodput was before: %s clients",
  (kind) => {
    const clients =
      kind === "OPEN" ? OPEN : ({ kind, count: 50, jobs: 1, startSpreadMs: 1000 } as const);
    // No call may ever start: the breaker has opened at the first one, and stays open.
    const breaker = { minCalls: 1, openMs: 86_400_000, maxOpenMs: 86_400_000 };
    const policy = { maxAttempts: 3, initialDelayMs: 10, totalBudgetMs: 1000 };
    const { verdict, lost, calls } = simulate({
      clients,
      guards: "SHARED",
      horizonMs: 120_000,
      tiers: [{ destination: { policy, breaker }, server: { latency: 10 } }],
      timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 8000 }],
    });
    expect([lost / calls, verdict]).toEqual([1, "no call succeeds: circuit-open"]);
  },
);
