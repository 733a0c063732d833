/**
 * Failover lab: the demo that sells. A database is away for 8 s; what does a fleet with one job each
 * make of it?
 */
import type { PolicyDocument } from "@redrive/core";
import type { Report } from "../measure/report.ts";
import type { CallsDocument, PhaseDocument } from "../scenario/scenario-document.ts";
import { simulate } from "../simulate/simulate.ts";
import { type Lab, type LabRow, meanOver, near, runs, within } from "./lab.ts";

const OUTAGE: PhaseDocument = { kind: "OUTAGE", atMs: 0, forMs: 8000 };
const CURVE: PolicyDocument = {
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  maxAttempts: 12,
  totalBudgetMs: 3_600_000,
};

/** One job per client; capacity a fifth of the fleet per second, queue of 1 s. */
export function fleetScenario(clients: number, policy: PolicyDocument): CallsDocument {
  return {
    name: "failover-fleet",
    clients: { kind: "CLOSED", count: clients, jobs: 1 },
    horizonMs: 120_000,
    tiers: [
      {
        destination: { policy: { ...CURVE, ...policy } },
        server: { capacityPerSecond: clients / 5, queueMs: 1000 },
      },
    ],
    timeline: [OUTAGE],
  };
}

function fleetRows(what: string, report: Report, calls: number, doneS: number): LabRow[] {
  return [
    near(`${what}: calls of each client`, calls, report.amplification, 0.05),
    near(`${what}: s until the last is done`, doneS, report.doneAtMs / 1000, 0.05),
  ];
}

/** A maximum varies by chance: the mean over seeds. */
function meanPeak(policy: PolicyDocument, seed: number | string, count: number): number {
  return meanOver(
    count,
    (run) => simulate(fleetScenario(CLIENTS, policy), { seed: `${seed}/${run}` }).peakAfter.count,
  );
}

const CLIENTS = 10_000;

function runFleetCases(seed: number | string, effort: number): readonly LabRow[] {
  const fleet = (policy: PolicyDocument) => simulate(fleetScenario(CLIENTS, policy), { seed });
  const none = fleet({ initialDelayMs: 0, maxAttempts: 4, jitterType: "NONE" });
  const linear = fleet({ backoff: "LINEAR", jitterType: "NONE", maxAttempts: 25 });
  const exponential = fleet({ jitterType: "NONE" });
  const decorrelated = fleet({ jitterType: "DECORRELATED" });
  const count = runs(200, effort, 100);
  const peakRow = (what: string, published: number, policy: PolicyDocument) => ({
    ...near(`${what}: peak per 100 ms`, published, meanPeak(policy, seed, count), 0.05),
    runs: count,
  });
  const inOneWindow = linear.peakAfter.count / CLIENTS;
  return [
    within("4 immediate tries: share saved", 0, none.goodput, 0),
    ...fleetRows("linear", linear, 16, 16.3),
    within("linear: share that arrives in one window of 100 ms", 1, inOneWindow, 0),
    near("linear: when that is, s", 9, linear.peakAfter.atMs / 1000, 0.05),
    ...fleetRows("exponential", exponential, 10, 86.5),
    near("exponential: when all arrive, s", 12.6, exponential.peakAfter.atMs / 1000, 0.05),
    ...fleetRows("equal", fleet({ jitterType: "EQUAL" }), 8.1, 23.6),
    peakRow("equal", 333, { jitterType: "EQUAL" }),
    ...fleetRows("full", fleet({}), 8.9, 27.8),
    peakRow("full", 213, {}),
    near("decorrelated: calls of each client", 9.65, decorrelated.amplification, 0.05),
    near("decorrelated: share dead", 0.25, 1 - decorrelated.goodput, 0.05),
    near("decorrelated: s until the last is done", 21.7, decorrelated.doneAtMs / 1000, 0.05),
  ];
}

export const failoverLab: Lab = {
  id: "failover",
  title: "The failover story: one job per client",
  source: "Own reference, two independent implementations; the seed's 400 instances and 8 s",
  lesson:
    "Immediate retries save nobody. Exponential without jitter takes three times as long as full jitter. Decorrelated loses a quarter.",
  run: runFleetCases,
};
