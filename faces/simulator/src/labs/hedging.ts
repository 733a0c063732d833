/**
 * Hedging lab: a second copy after p95, compared with the exact formula P(Y > t) = S(t) S(t - d),
 * and the share of calls that get a copy if p95 is that of the calls so far.
 */
import type { DurationDocument } from "../engine/durations.ts";
import { power } from "../engine/numeric.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type {
  CallsDocument,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls.ts";
import { type Figures, figuresOf, sumOf } from "../worlds/report.ts";
import { quantileOf } from "../worlds/tally.ts";
import { atMost, type Lab, type LabRow, meanOver, runs, sample, sampled, within } from "./lab.ts";

/** Latencies are multiples of 1000 ms, so rounding to whole ms does not matter. */
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

/** The formula is exact, so only our sampling error counts. */
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

/** A destination whose copies follow its own latencies. */
interface LiveCase {
  readonly what: string;
  readonly after: "p50" | "p95" | "p99";
  readonly server: ServerDocument;
  readonly retryBudget?: { readonly ratio: number };
  readonly timeline?: readonly PhaseDocument[];
  /** The copies are counted from this second on. Quantiles cover the last minute. */
  readonly from?: number;
  /** The expected share of calls with a copy, and the allowed difference. */
  readonly share: number;
  readonly by: number;
  /** The share is a limit. */
  readonly isBound?: boolean;
}

const EXPONENTIAL = { latency: { kind: "EXPONENTIAL", meanMs: 200 } } as const;
const LOGNORMAL = { latency: { kind: "LOGNORMAL", medianMs: 200, sigma: 1 } } as const;
const P95 = { after: "p95", share: 0.05, by: 0.005 } as const;
const slower = [{ kind: "SLOW", factor: 3, atMs: 90_000, forMs: 1_000_000 } as const];

const LIVE_CASES: readonly LiveCase[] = [
  { ...P95, what: "exponential", server: EXPONENTIAL },
  { ...P95, what: "lognormal s = 1", server: LOGNORMAL },
  {
    ...P95,
    what: "exponential, a minute after it became three times slower",
    server: EXPONENTIAL,
    timeline: slower,
    from: 150,
  },
  {
    ...P95,
    what: "lognormal s = 1, a minute after it became three times slower",
    server: LOGNORMAL,
    timeline: slower,
    from: 150,
  },
  { what: "exponential", after: "p50", server: EXPONENTIAL, share: 0.5, by: 0.02 },
  { what: "lognormal s = 1", after: "p50", server: LOGNORMAL, share: 0.5, by: 0.02 },
  { what: "exponential", after: "p99", server: EXPONENTIAL, share: 0.01, by: 0.002 },
  { what: "lognormal s = 1", after: "p99", server: LOGNORMAL, share: 0.01, by: 0.002 },
  {
    ...P95,
    what: "all calls take 150 to 151 ms",
    server: { latency: { kind: "UNIFORM", minMs: 150, maxMs: 151 } },
    isBound: true,
  },
  {
    ...P95,
    what: "exponential, 60 % fail at once",
    server: { ...EXPONENTIAL, failureRate: 0.6 },
    isBound: true,
  },
  {
    ...P95,
    what: "exponential, 60 % never respond, retry budget of 10 %",
    server: { ...EXPONENTIAL, shards: 10 },
    timeline: [0, 1, 2, 3, 4, 5].map((shard) => {
      return { kind: "OUTAGE", mode: "HANG", shard, atMs: 0, forMs: 1_000_000 };
    }),
    retryBudget: { ratio: 0.1 },
    share: 0.11,
    isBound: true,
  },
];

function liveShare(one: LiveCase, seed: string): number {
  const { after, server, timeline = [], retryBudget, from = 60 } = one;
  const policy = { maxAttempts: 1, attemptTimeoutMs: 60_000, totalBudgetMs: 3_600_000 };
  const document: CallsDocument = {
    clients: { kind: "OPEN", ratePerSecond: 200 },
    horizonMs: 1000 * (from + 150),
    tiers: [
      { destination: { policy, hedge: { after }, ...(retryBudget && { retryBudget }) }, server },
    ],
    timeline,
  };
  const { series } = figuresOf(runCalls(resolveCalls(document), seed));
  const first = Math.floor((from * 1000) / series.binMs);
  return sumOf(series.attempts, first) / sumOf(series.offered, first) - 1;
}

function liveRow(one: LiveCase, seed: number | string, count: number): LabRow {
  const { what, after, share, by, isBound = false } = one;
  const ours = meanOver(count, (run) => liveShare(one, `${seed}/live/${run}`));
  const text = `${what}: copies at the live ${after}`;
  return isBound ? atMost(text, share, ours) : within(text, share, ours, by);
}

const exactly = (row: LabRow): LabRow => ({ ...row, basis: "exact" });

function run(seed: number | string, effort: number): readonly LabRow[] {
  const fanOut = (slow: number, calls: number) => 1 - power(1 - slow, calls);
  return [
    ...CASES.flatMap((one) => caseRows(one, seed, runs(10, effort, 8))),
    ...LIVE_CASES.map((one) => liveRow(one, seed, runs(4, effort, 2))),
    exactly(
      within("fan-out of 100, each slow 1 in 100: slow responses", 0.634, fanOut(0.01, 100), 5e-4),
    ),
    exactly(within("fan-out of 2,000, each slow 1 in 10,000", 0.181, fanOut(0.0001, 2000), 5e-4)),
  ];
}

export const hedgingLab: Lab = {
  id: "hedging",
  title: "Hedging: a second copy of slow calls",
  source:
    "Dean and Barroso, The Tail at Scale, CACM 2013; exact formula; for a live quantile its definition",
  lesson:
    "Hedging at p95 costs 5 %, also if p95 is measured while calls are hedged: a copy that is aborted would have taken longer. The gain depends on the tail: -18 % at p99 for an exponential, -35 % for a lognormal with s = 1.",
  run,
};
