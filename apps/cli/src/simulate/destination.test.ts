/** Tests of the output of `redrive sim destination`: what was filled in, the report, and the link. */
import { simulate } from "@redrive/simulator";
import { expect, test } from "vitest";
import { fakeTerminal } from "../program.testing.ts";
import { presentSimulation } from "./destination.ts";

/** What a service responds. */
function simulated(ratePerSecond: number) {
  const scenario = {
    clients: { kind: "OPEN", ratePerSecond },
    timeline: [{ kind: "OUTAGE", atMs: 1000, forMs: 1000 }],
    horizonMs: 5000,
  } as const;
  const report = JSON.parse(
    JSON.stringify(simulate(scenario, { seed: 1 }), (_key, value) =>
      value instanceof Float64Array ? [...value] : value,
    ),
  );
  const inputs = {
    destination: "shop",
    policyId: null,
    outageMs: 1000,
    ratePerSecond,
    measuredMinutes: 3,
    failureShare: 0,
    latency: { p50Ms: 20, p99Ms: 90 },
    waiting: 7,
    inFlight: 0,
    concurrency: null,
    breakerState: "CLOSED",
    retryBudget: "open",
    notes: ["A note."],
  };
  return { scenario, seed: 1, inputs, pageUrl: "/ui/simulator#1.x", report };
}

test("shows what was measured, the report and the link to the simulator", () => {
  const view = simulated(50);
  const { scenario, report } = view;
  const { text, csv, run } = presentSimulation(view, "http://127.0.0.1:7337");
  const lines = text(fakeTerminal().terminal);
  expect(lines.join(" ")).toContain(
    "shop: 50 new calls/s (measured in 3 min), latency p50 20 ms, p99 90 ms, 7 waiting tasks.",
  );
  expect(lines).toContain("A note.");
  expect(lines.at(-1)).toBe("Open in the simulator: http://127.0.0.1:7337/ui/simulator#1.x");
  expect(csv?.().length).toBe(report.series.attempts.length + 1);
  expect(run).toMatchObject({ view: "system", scenarios: [scenario] });
});

test("says nothing about an outage that meets too few calls", () => {
  expect(() => presentSimulation(simulated(2), "http://127.0.0.1:7337")).toThrow(
    /^too few calls to say anything: \d calls? in an outage of 1 s, at 2 new calls\/s \(measured in 3 min\); pass --rate, or a longer --outage$/u,
  );
});
