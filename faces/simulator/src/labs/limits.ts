/**
 * Limits lab: how the algorithms that find a concurrency limit treat destinations that become
 * slower, refuse, fail or are tiny. The reference is what the destination can serve.
 */
import type { LimitAlgorithm } from "@redrive/core";
import { resolveCalls } from "../scenario/scenario.ts";
import type {
  CallsDocument,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls.ts";
import { figuresOf, sumOf } from "../worlds/report.ts";
import { between, explained, type Lab, type LabRow, runs, sample } from "./lab.ts";

interface LimitCase {
  readonly what: string;
  readonly perSecond: number;
  /** Processes, each with its own limit. Default: 1. */
  readonly clients?: number;
  readonly timeoutMs?: number;
  readonly server: ServerDocument;
  readonly timeline?: readonly PhaseDocument[];
  readonly seconds: number;
  /** The calls are counted from this second to that one. */
  readonly counted: readonly [number, number];
  /** Calls per second that the destination can serve then. */
  readonly best: number;
  /** The default algorithm serves at least this share of them ... */
  readonly served: number;
  /** ... and at most this share of what it sends is not served. 1: not compared. */
  readonly wasted: number;
}

const DIP = { kind: "CAPACITY", atMs: 60_000, forMs: 120_000, factor: 0.2 } as const;
const dip = {
  perSecond: 600,
  clients: 10,
  server: { capacityPerSecond: 800, latency: 20 },
  timeline: [DIP],
  seconds: 240,
};

const refusing = [0, 1, 2].map((shard) => {
  return { kind: "OUTAGE", shard, atMs: 0, forMs: 120_000 } as const;
});

const CASES: readonly LimitCase[] = [
  {
    ...dip,
    what: "step down: 600/s, capacity 800/s falls to 160/s",
    counted: [60, 180],
    best: 160,
    served: 0.85,
    wasted: 0.15,
  },
  {
    ...dip,
    what: "step up: the capacity is 800/s again",
    counted: [180, 240],
    best: 600,
    served: 0.95,
    wasted: 0.02,
  },
  {
    ...dip,
    what: "flapping: 800/s and 160/s, 10 s each",
    timeline: Array.from({ length: 12 }, (_, n) => ({
      ...DIP,
      atMs: 20_000 * n,
      forMs: 10_000,
    })),
    counted: [0, 240],
    best: 380,
    served: 0.95,
    wasted: 0.05,
  },
  {
    what: "slow: 120/s of 20 ms take 400 ms, without a queue",
    perSecond: 120,
    server: { latency: 20 },
    timeline: [{ kind: "SLOW", atMs: 60_000, forMs: 120_000, factor: 20 }],
    seconds: 180,
    counted: [60, 180],
    best: 120,
    served: 0.95,
    wasted: 0.02,
  },
  {
    what: "long calls: 5/s of 8 s",
    perSecond: 5,
    timeoutMs: 30_000,
    server: { latency: 8000 },
    seconds: 300,
    counted: [20, 300],
    best: 5,
    served: 0.95,
    wasted: 0.04,
  },
  {
    what: "failing: 300/s of 150 ms, three of ten backends respond with 503",
    perSecond: 300,
    server: { latency: 150, shards: 10 },
    timeline: refusing,
    seconds: 120,
    counted: [0, 120],
    best: 210,
    served: 0.95,
    wasted: 1,
  },
  {
    what: "refusing: 600/s, 160/s are accepted, the others get a 429",
    perSecond: 600,
    clients: 10,
    server: { capacityPerSecond: 160, latency: 50, queueMs: 10, overload: "429" },
    seconds: 120,
    counted: [20, 120],
    best: 160,
    served: 0.85,
    wasted: 0.5,
  },
  {
    what: "outage: 300/s of 150 ms, all refused for 10 s; the next minute",
    perSecond: 300,
    server: { latency: 150 },
    timeline: [{ kind: "OUTAGE", atMs: 60_000, forMs: 10_000 }],
    seconds: 130,
    counted: [70, 130],
    best: 300,
    served: 0.85,
    wasted: 0.02,
  },
  {
    what: "tiny: 30/s, one call of 100 ms at a time",
    perSecond: 30,
    server: { capacityPerSecond: 10 },
    seconds: 600,
    counted: [60, 600],
    best: 10,
    served: 0.8,
    wasted: 0.2,
  },
  {
    what: "tiny: 10/s, one call of 500 ms at a time",
    perSecond: 10,
    server: { capacityPerSecond: 2 },
    seconds: 1200,
    counted: [120, 1200],
    best: 2,
    served: 0.6,
    wasted: 0.4,
  },
  {
    what: "quiet: 1 call/s",
    perSecond: 1,
    server: { capacityPerSecond: 800, latency: 50 },
    seconds: 1200,
    counted: [0, 1200],
    best: 1,
    served: 0.9,
    wasted: 0.01,
  },
];

/** The default comes first. */
const ALGORITHMS: readonly LimitAlgorithm[] = ["AIMD", "GRADIENT", "VEGAS"];

interface Served {
  readonly served: number;
  readonly wasted: number;
}

function measure(one: LimitCase, algorithm: LimitAlgorithm, seed: string): Served {
  const { perSecond, clients = 1, timeoutMs = 1000, server, timeline = [], seconds } = one;
  const policy = { maxAttempts: 1, attemptTimeoutMs: timeoutMs, totalBudgetMs: 3_600_000 };
  const document: CallsDocument = {
    clients: { kind: "OPEN", count: clients, ratePerSecond: perSecond },
    horizonMs: seconds * 1000,
    tiers: [{ destination: { policy, concurrency: { algorithm } }, server }],
    timeline,
  };
  const { series } = figuresOf(runCalls(resolveCalls(document), seed));
  const [from, to] = one.counted.map((second) => Math.floor((second * 1000) / series.binMs));
  const succeeded = sumOf(series.succeeded, from, to);
  const sent = sumOf(series.attempts, from, to);
  const best = one.best * ((one.counted[1] as number) - (one.counted[0] as number));
  return { served: succeeded / best, wasted: Math.max(0, 1 - succeeded / sent) };
}

const NOT_DEFAULT =
  "not the default: longer calls and refusals lower this limit, whatever their cause, and it starts at 20";

/** Poisson traffic varies by a few percent. */
const MAX_SERVED = 1.1;

function caseRows(one: LimitCase, seed: number | string, count: number): readonly LabRow[] {
  return ALGORITHMS.flatMap((algorithm) => {
    const all = sample(count, (run) => measure(one, algorithm, `${seed}/${run}`));
    const mean = (field: keyof Served) => all.reduce((sum, each) => sum + each[field], 0) / count;
    const label = (text: string) => `${one.what}: ${algorithm} ${text}`;
    const rows = [between(label("serves"), 1, mean("served"), one.served, MAX_SERVED)];
    if (one.wasted < 1) rows.push(between(label("wastes"), 0, mean("wasted"), 0, one.wasted));
    return algorithm === "AIMD" ? rows : rows.map((row) => explained(row, NOT_DEFAULT));
  });
}

export const limitsLab: Lab = {
  id: "limits",
  title: "Concurrency limits: how the algorithms treat overload, and what is not overload",
  source: "our reference: what the destination can serve",
  lesson:
    "AIMD serves at least 70 % of what the destination can serve in every case, mostly over 90 %. Limits that follow latencies are more exact in overload, and take slow or failing destinations for overload.",
  run: (seed, effort) => CASES.flatMap((one) => caseRows(one, seed, runs(2, effort))),
};
