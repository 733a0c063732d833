/**
 * Failover lab: the demo that sells. A database is away for 8 s; what do its clients make of it?
 * First a fleet with one job each, then open traffic in which deferred retries meet new calls.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { figuresOf, type Report } from "../measure/report.ts";
import {
  type CallsDocument,
  type PhaseDocument,
  resolveCalls,
  type ServerDocument,
} from "../scenario.ts";
import { simulate } from "../simulate.ts";
import { runCalls } from "../world/calls.ts";
import { between, type Lab, type LabRow, near, within } from "./lab.ts";
import { type BucketOptions, bucketGuard } from "./own-guards.ts";

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

/** The reference's peaks are means over seeds: a maximum of one run lies higher by chance. */
function meanPeak(clients: number, policy: PolicyDocument, seed: number | string): number {
  const seeds = 3;
  let sum = 0;
  for (let run = 0; run < seeds; run++) {
    sum += simulate(fleetScenario(clients, policy), { seed: `${seed}/${run}` }).peakAfter.count;
  }
  return sum / seeds;
}

function runFleetCases(seed: number | string): readonly LabRow[] {
  const fleet = (policy: PolicyDocument) => simulate(fleetScenario(10_000, policy), { seed });
  const none = fleet({ initialDelayMs: 0, maxAttempts: 4, jitterType: "NONE" });
  const linear = fleet({ backoff: "LINEAR", jitterType: "NONE", maxAttempts: 25 });
  const exponential = fleet({ jitterType: "NONE" });
  const equal = fleet({ jitterType: "EQUAL" });
  const full = fleet({});
  const decorrelated = fleet({ jitterType: "DECORRELATED" });
  // A tenth of a percent in a window of a fleet of 10,000 is a handful of clients: peaks are
  // measured on 100,000 and scaled.
  const peakOf = (policy: PolicyDocument) => meanPeak(100_000, policy, seed) / 10;
  return [
    within("4 immediate tries: share saved", 0, none.goodput, 0),
    ...fleetRows("linear", linear, 16, 16.3),
    within(
      "linear: share that arrives in one window of 100 ms",
      1,
      linear.peakAfter.count / 10_000,
      0,
    ),
    near("linear: when that is, s", 9, linear.peakAfter.atMs / 1000, 0.05),
    ...fleetRows("exponential", exponential, 10, 86.5),
    near("exponential: when all arrive, s", 12.6, exponential.peakAfter.atMs / 1000, 0.05),
    ...fleetRows("equal", equal, 8.1, 23.6),
    near("equal: peak per 100 ms", 333, peakOf({ jitterType: "EQUAL" }), 0.05),
    ...fleetRows("full", full, 8.9, 27.8),
    near("full: peak per 100 ms", 213, peakOf({}), 0.05),
    near("decorrelated: calls of each client", 9.65, decorrelated.amplification, 0.05),
    near("decorrelated: share dead", 0.25, 1 - decorrelated.goodput, 0.05),
    near("decorrelated: s until the last is done", 21.7, decorrelated.doneAtMs / 1000, 0.05),
  ];
}

interface OpenCase {
  readonly what: string;
  readonly destination: DestinationDocument;
  readonly server?: ServerDocument;
  /** Share lost in 130 s from the start of the outage, failing fast and hanging; undefined: never. */
  readonly published: readonly [number | undefined, number | undefined];
  readonly by: number;
  /** A budget as the reference has it; core's own stands in the destination and beside the row. */
  readonly bucket?: BucketOptions;
}

const TIMEOUT: PolicyDocument = {
  attemptTimeoutMs: 1000,
  connectTimeoutMs: 1000,
  totalBudgetMs: 3_600_000,
};
const FULL_4S: PolicyDocument = {
  ...TIMEOUT,
  maxAttempts: 4,
  initialDelayMs: 4000,
  maxDelayMs: 60_000,
};
const FULL_7: PolicyDocument = {
  ...TIMEOUT,
  maxAttempts: 8,
  initialDelayMs: 100,
  maxDelayMs: 20_000,
};
const BOUND: ServerDocument = { queueMs: 500 };

const OPEN_CASES: readonly OpenCase[] = [
  {
    what: "no retry",
    destination: { policy: { ...TIMEOUT, maxAttempts: 1 } },
    published: [0.06, 0.16],
    by: 0.015,
  },
  {
    what: "3 immediate retries",
    destination: { policy: { ...TIMEOUT, maxAttempts: 4, initialDelayMs: 0 } },
    published: [0.06, undefined],
    by: 0.015,
  },
  {
    what: "3 full jitter from 4 s",
    destination: { policy: FULL_4S },
    published: [undefined, undefined],
    by: 0,
  },
  {
    what: "3 full jitter from 4 s, queue of 0.5 s",
    destination: { policy: FULL_4S },
    server: BOUND,
    published: [0.006, 0.006],
    by: 0.005,
  },
  {
    what: "7 full jitter from 100 ms, queue of 0.5 s",
    destination: { policy: FULL_7 },
    server: BOUND,
    published: [0.031, 0.031],
    by: 0.01,
  },
  {
    what: "7 full jitter, budget 10 %",
    destination: { policy: FULL_7, retryBudget: { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } },
    bucket: { ratio: 0.1, size: 2, on: "success" },
    published: [0.063, 0.16],
    by: 0.015,
  },
  {
    what: "7 full jitter, server drops expired work",
    destination: { policy: FULL_7 },
    server: { dropsExpired: true },
    published: [0.64, 0.69],
    by: 0.1,
  },
];

/**
 * 400 instances of 5 calls a second against 3,000/s, at a quarter of its size (the shape does not depend
 * on it); trouble after 5 quiet seconds.
 */
export function openScenario(
  destination: DestinationDocument,
  server: ServerDocument | undefined,
  phase: PhaseDocument,
): CallsDocument {
  return {
    name: "failover-open",
    clients: { kind: "OPEN", count: 100, ratePerSecond: 500 },
    guards: "PER_CLIENT",
    horizonMs: 135_000,
    tiers: [{ destination, server: { capacityPerSecond: 750, service: "EXPONENTIAL", ...server } }],
    timeline: [phase],
  };
}

const QUIET_MS = 5000;

function runOpenCases(seed: number | string): readonly LabRow[] {
  return OPEN_CASES.flatMap((one) =>
    (["FAIL_FAST", "HANG"] as const).map((mode, index) => {
      const phase: PhaseDocument = { kind: "OUTAGE", mode, atMs: QUIET_MS, forMs: 8000 };
      const report = runOpen(one, phase, seed);
      const what = `${one.what}, ${mode === "HANG" ? "hanging" : "failing fast"}: share lost in 130 s`;
      const lost = lostFrom(report, QUIET_MS);
      const published = one.published[index];
      const core = one.bucket && lostFrom(simulate(openDocument(one, phase), { seed }), QUIET_MS);
      // "Never recovers" means that most of the window is lost.
      if (published === undefined)
        return between(`${what} (published: never recovers)`, 1, lost, 0.5, 1);
      const row = within(what, published, lost, one.by);
      return core === undefined ? row : { ...row, core };
    }),
  );
}

function openDocument({ destination, server }: OpenCase, phase: PhaseDocument): CallsDocument {
  return openScenario(destination, server, phase);
}

function runOpen(
  one: OpenCase,
  phase: PhaseDocument,
  seed: number | string,
): Pick<Report, "series"> {
  const { bucket } = one;
  if (bucket === undefined) return simulate(openDocument(one, phase), { seed });
  const { policy } = one.destination;
  const bare = resolveCalls(
    openScenario(policy === undefined ? {} : { policy }, one.server, phase),
  );
  return figuresOf(runCalls(bare, seed, { ownGuard: () => bucketGuard(bucket) }));
}

/** Lost calls as share of those offered from `fromMs` on. */
export function lostFrom({ series }: Pick<Report, "series">, fromMs: number): number {
  let offered = 0;
  let lost = 0;
  for (let bin = Math.floor(fromMs / series.binMs); bin < series.offered.length; bin++) {
    offered += series.offered[bin] as number;
    lost += series.failed[bin] as number;
  }
  return offered === 0 ? 0 : lost / offered;
}

export const failoverLab: Lab = {
  id: "failover",
  title: "The failover story: one job per client",
  source: "Own reference, two independent implementations; the seed's 400 instances and 8 s",
  lesson:
    "Immediate retries save nobody. Exponential without jitter takes three times as long as full jitter. Decorrelated loses a quarter.",
  run: (seed) => runFleetCases(seed),
};

export const failoverOpenLab: Lab = {
  id: "failover-open",
  title: "The failover story: open traffic",
  source:
    "Own reference, two independent implementations; window of 130 s from the start of the outage",
  lesson:
    "Patience saves requests only if the server sheds load, or if a durable service paces delivery.",
  run: (seed) => runOpenCases(seed),
};
