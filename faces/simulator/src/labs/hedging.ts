/** Hedging lab: a second copy after p95, against the exact law P(Y > t) = S(t) S(t - d). */

import { quantileOf } from "../measure/histogram.ts";
import { type Figures, figuresOf } from "../measure/report.ts";
import type { DurationDocument } from "../random/durations.ts";
import { power } from "../random/numeric.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls/calls.ts";
import { type Lab, type LabRow, meanOver, runs, sample, sampled, within } from "./lab.ts";

/** Latencies in units of 1000 ms, so that whole ms do not matter. */
const UNIT_MS = 1000;

/** Calls of one run. */
const CALLS = 50_000;

interface Measured {
  readonly figures: Figures;
  readonly p999: number;
}

function measure(
  latency: DurationDocument,
  afterMs: number,
  calls: number,
  seed: number | string,
): Measured {
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
  readonly latency: DurationDocument;
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

/** The law is exact, so only our own chance may differ. */
function caseRows(one: HedgeCase, seed: number | string, count: number): LabRow[] {
  const runsOf = (afterMs: number) =>
    sample(count, (run) => measure(one.latency, afterMs, CALLS, `${seed}/${run}`));
  const alone = runsOf(0);
  const hedged = runsOf(one.p95Ms);
  const row = (what: string, published: number, values: readonly number[]) =>
    sampled(
      `${one.what}: ${what}`,
      published,
      0.01,
      values.map((ms) => ms / UNIT_MS),
      {
        exact: true,
      },
    );
  const extra = meanOver(count, (run) => (hedged[run] as Measured).figures.amplification - 1);
  return [
    within(`${one.what}: extra load of hedging at p95`, 0.05, extra, 0.003),
    row(
      "p99 alone",
      one.p99[0],
      alone.map(({ figures }) => figures.latencyMs.p99),
    ),
    row(
      "p99 hedged",
      one.p99[1],
      hedged.map(({ figures }) => figures.latencyMs.p99),
    ),
    ...(one.p999 === undefined
      ? []
      : [
          row(
            "p99.9 alone",
            one.p999[0],
            alone.map(({ p999 }) => p999),
          ),
          row(
            "p99.9 hedged",
            one.p999[1],
            hedged.map(({ p999 }) => p999),
          ),
        ]),
  ];
}

const exactly = (row: LabRow): LabRow => ({ ...row, basis: "exact" });

function run(seed: number | string, effort: number): readonly LabRow[] {
  const fanOut = (slow: number, calls: number) => 1 - power(1 - slow, calls);
  return [
    ...CASES.flatMap((one) => caseRows(one, seed, runs(10, effort, 8))),
    exactly(
      within("fan-out of 100, each slow 1 in 100: slow answers", 0.634, fanOut(0.01, 100), 5e-4),
    ),
    exactly(within("fan-out of 2,000, each slow 1 in 10,000", 0.181, fanOut(0.0001, 2000), 5e-4)),
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
