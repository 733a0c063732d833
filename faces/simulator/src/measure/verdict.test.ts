/** Verdict: the numbers in the sentence are a reason for it, never against it. */
import { expect, test } from "vitest";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { scenarios } from "../scenario/scenarios.ts";
import { simulate } from "../simulate/simulate.ts";

const classic = scenarios["metastable"] as CallsDocument;

/** The classic with one more guard in front of its server. */
function guarded(guard: object): CallsDocument {
  const [tier] = classic.tiers ?? [];
  return { ...classic, tiers: [{ ...tier, destination: { ...tier?.destination, ...guard } }] };
}

test.each([
  ["no guard", {}],
  ["a retry budget", { retryBudget: {} }],
  ["a breaker", { breaker: {} }],
  ["adaptive concurrency", { concurrency: { algorithm: "AIMD", max: 200 } }],
])("a sentence does not contradict its law: %s", (_, guard) => {
  const { verdict } = simulate(guarded(guard), { seed: 1 });
  expect(verdict).toMatch(/^(?:never recovers|recovers )/u);
  expect(verdict).not.toMatch(verdict.startsWith("never") ? / < \d/u : / > \d/u);
});

const OPEN = { kind: "OPEN", ratePerSecond: 100 } as const;

test("a call that is still under way is not called lost", () => {
  const report = simulate({ clients: OPEN, tiers: [{ server: { latency: 100 } }] });
  expect([report.lost, report.unfinished > 0]).toEqual([0, true]);
  expect(report.verdict).toBe("1 attempts per call; 0 % of the calls lost");
  const stuck = simulate({ clients: OPEN, tiers: [{ server: { perCallMs: 60_000 } }] });
  const share = (count: number) => `${Math.round((count / stuck.calls) * 1000) / 10} %`;
  expect(stuck.verdict).toContain(
    `; ${share(stuck.lost)} of the calls lost, ${share(stuck.unfinished)} unfinished`,
  );
});

test("no calls are no losses", () => {
  const report = simulate({ clients: { kind: "OPEN", ratePerSecond: 0.001 }, horizonMs: 10 });
  expect(report.verdict).toBe("0 attempts per call; 0 % of the calls lost");
});

test.each([
  [50_000, 60_000],
  [70_000, 1000],
  [50_000, 9000],
])("a run of 60 s that ends too soon says so: trouble from %i ms for %i ms", (atMs, forMs) => {
  const phase = { kind: "OUTAGE", atMs, forMs } as const;
  const { verdict } = simulate({
    clients: OPEN,
    // Back at once after the trouble, but nobody can see it yet.
    tiers: [{ destination: { policy: { maxAttempts: 1 } } }],
    timeline: [phase],
  });
  expect(verdict).toMatch(/^the run ends too soon to tell; /u);
});

test("a fleet that is done before the trouble ends does not count backwards", () => {
  const { verdict } = simulate({
    clients: { kind: "CLOSED", count: 10, jobs: 1 },
    timeline: [{ kind: "OUTAGE", atMs: 5000, forMs: 1000 }],
  });
  expect(verdict).toMatch(/^all done before it ends; /u);
});
