/** Hedging lab: a second copy after p95, against the exact law P(Y > t) = S(t) S(t - d). */

import { power } from "../chance/numeric.ts";
import type { SpanDocument } from "../chance/spans.ts";
import { quantileOf } from "../measure/histogram.ts";
import { type Figures, figuresOf } from "../measure/report.ts";
import { type CallsDocument, resolveCalls } from "../scenario.ts";
import { runCalls } from "../world/calls.ts";
import { type Lab, type LabRow, near, runs, within } from "./lab.ts";

/** Latencies in units of 1000 ms, so that whole ms do not matter. */
const UNIT_MS = 1000;

function measure(latency: SpanDocument, afterMs: number, calls: number, seed: number | string) {
  const horizonMs = Math.floor(calls / 2);
  const document: CallsDocument = {
    clients: { kind: "OPEN", ratePerSecond: 2000, untilMs: horizonMs },
    horizonMs: horizonMs + 600_000,
    tiers: [
      {
        destination: {
          policy: { maxAttempts: 1, attemptTimeoutMs: 600_000, totalBudgetMs: 3_600_000 },
          ...(afterMs > 0 && { hedge: { after: afterMs, max: 1 } }),
        },
        server: { latency },
      },
    ],
  };
  const run = runCalls(resolveCalls(document), seed);
  const figures: Figures = figuresOf(run);
  return { figures, p999: quantileOf(run.tally.latency, 0.999) };
}

interface HedgeCase {
  readonly what: string;
  readonly latency: SpanDocument;
  /** The 95th percentile, from the distribution. */
  readonly p95Ms: number;
  readonly p99: readonly [number, number];
  readonly p999?: readonly [number, number];
}

const CASES: readonly HedgeCase[] = [
  {
    what: "exponential",
    latency: { kind: "EXPONENTIAL", meanMs: UNIT_MS },
    p95Ms: 2996,
    p99: [4.61, 3.8],
  },
  {
    what: "lognormal s = 1",
    latency: { kind: "LOGNORMAL", medianMs: UNIT_MS, sigma: 1 },
    p95Ms: 5180,
    p99: [10.2, 6.7],
    p999: [21.98, 9.31],
  },
];

function caseRows(one: HedgeCase, seed: number | string, calls: number): LabRow[] {
  const alone = measure(one.latency, 0, calls, seed);
  const hedged = measure(one.latency, one.p95Ms, calls, seed);
  const rows = [
    within(
      `${one.what}: extra load of hedging at p95`,
      0.05,
      hedged.figures.amplification - 1,
      0.003,
    ),
    near(`${one.what}: p99 alone`, one.p99[0], alone.figures.latencyMs.p99 / UNIT_MS, 0.02),
    near(`${one.what}: p99 hedged`, one.p99[1], hedged.figures.latencyMs.p99 / UNIT_MS, 0.02),
  ];
  if (one.p999)
    rows.push(near(`${one.what}: p99.9 hedged`, one.p999[1], hedged.p999 / UNIT_MS, 0.04));
  return rows;
}

function run(seed: number | string, effort: number): readonly LabRow[] {
  const calls = runs(200_000, effort, 100_000);
  return [
    ...CASES.flatMap((one) => caseRows(one, seed, calls)),
    near(
      "fan-out of 100, each slow 1 in 100: share of slow answers",
      0.634,
      1 - power(0.99, 100),
      0.001,
    ),
    near("fan-out of 2,000, each slow 1 in 10,000", 0.181, 1 - power(0.9999, 2000), 0.002),
  ];
}

export const hedgingLab: Lab = {
  id: "hedging",
  title: "Hedging: a second copy of slow calls",
  source: "Dean and Barroso, The Tail at Scale, CACM 2013; exact law",
  lesson:
    "Hedging at p95 costs 5 %. What it gains depends on the tail: -18 % at p99 for an exponential, -35 % for a lognormal with s = 1.",
  run,
};
