/** Failover labs: a database is down for 8 s, for a fleet with one job each and for open traffic. */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { resolveCalls } from "../scenario/scenario.ts";
import type {
  CallsDocument,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls.ts";
import { type Figures, figuresOf, type Report } from "../worlds/report.ts";
import { simulate } from "../worlds/simulate.ts";
import {
  explained,
  type Lab,
  type LabRow,
  meanOver,
  near,
  runs,
  same,
  sample,
  sampled,
  within,
} from "./lab.ts";
import { type BucketOptions, bucketGuard } from "./published-guards.ts";

const OUTAGE: PhaseDocument = { kind: "OUTAGE", atMs: 0, forMs: 8000 };
const CURVE: PolicyDocument = {
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  maxAttempts: 12,
  totalBudgetMs: 3_600_000,
};

/** One job per client, a capacity of a fifth of the fleet per second, a queue of 1 s. */
function fleetScenario(clients: number, policy: PolicyDocument): CallsDocument {
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

/** The mean over seeds, because a maximum varies between runs. */
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
  title: "Failover: one job per client",
  source: "Our own model, two independent implementations; an outage of 8 s",
  lesson:
    "With immediate retries no call succeeds. Exponential without jitter takes three times as long as full jitter. Decorrelated loses a quarter.",
  run: runFleetCases,
};

// Open failover lab: the database is down for 8 s while new calls keep arriving, so delayed retries
// add to new calls.

/** The lost share and the unit of its last digit, or "never" if the run does not recover. */
type Published = readonly [share: number, unit: number] | "never";

interface OpenCase {
  readonly what: string;
  readonly policy: PolicyDocument;
  readonly server?: ServerDocument;
  /** Within 130 s from the start of the outage, for outages that fail fast and that hang. */
  readonly published: readonly [Published, Published];
  /** The budget of the published model. The row also has the result of core's budget. */
  readonly bucket?: BucketOptions;
  /** Why the result differs, if it does. */
  readonly deviation?: string;
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
    policy: { ...TIMEOUT, maxAttempts: 1 },
    published: [
      [0.06, 0.01],
      [0.16, 0.01],
    ],
  },
  {
    what: "3 immediate retries",
    policy: { ...TIMEOUT, maxAttempts: 4, initialDelayMs: 0 },
    published: [[0.06, 0.01], "never"],
  },
  { what: "3 full jitter from 4 s", policy: FULL_4S, published: ["never", "never"] },
  {
    what: "3 full jitter from 4 s, queue of 0.5 s",
    policy: FULL_4S,
    server: BOUND,
    published: [
      [0.006, 0.001],
      [0.006, 0.001],
    ],
    deviation: "the cap of the waits is not published; here 60 s",
  },
  {
    what: "7 full jitter from 100 ms, queue of 0.5 s",
    policy: FULL_7,
    server: BOUND,
    published: [
      [0.031, 0.001],
      [0.031, 0.001],
    ],
    deviation: "the cap of the waits is not published; here 20 s, as for the fleet",
  },
  {
    what: "7 full jitter, budget 10 %",
    policy: FULL_7,
    bucket: { ratio: 0.1, size: 5, on: "success" },
    published: [
      [0.063, 0.001],
      [0.16, 0.01],
    ],
    deviation:
      "the source gives 6 to 16 % and no bucket size; here 5 per client, as in the load lab; with 1 it is 16 %",
  },
  {
    what: "7 full jitter, server drops expired work",
    policy: FULL_7,
    server: { dropsExpired: true },
    published: [
      [0.64, 0.01],
      [0.69, 0.01],
    ],
  },
];

/** The outage starts after this time. */
const QUIET_MS = 5000;

/**
 * 400 instances with 5 calls per second against 3,000/s, scaled to a quarter (the result does not
 * depend on the scale).
 */
function openScenario(
  destination: DestinationDocument,
  server: ServerDocument | undefined,
  mode: Mode,
): CallsDocument {
  return {
    name: "failover-open",
    clients: { kind: "OPEN", count: 100, ratePerSecond: 500 },
    guards: "PER_CLIENT",
    horizonMs: 135_000,
    tiers: [{ destination, server: { capacityPerSecond: 750, service: "EXPONENTIAL", ...server } }],
    timeline: [{ kind: "OUTAGE", mode, atMs: QUIET_MS, forMs: 8000 } satisfies PhaseDocument],
  };
}

const MODES = ["FAIL_FAST", "HANG"] as const;
type Mode = (typeof MODES)[number];

function runOpenCases(seed: number | string, effort: number): readonly LabRow[] {
  const count = runs(5, effort, 4);
  return OPEN_CASES.flatMap((one) => MODES.map((mode) => caseRow(one, mode, seed, count)));
}

function caseRow(one: OpenCase, mode: Mode, seed: number | string, count: number): LabRow {
  const hangs = mode === "HANG";
  const published = one.published[hangs ? 1 : 0];
  const what = `${one.what}, ${hangs ? "hanging" : "failing fast"}`;
  if (published === "never") {
    const { recoveryMs } = runOpen(one, mode, seed);
    return same(`${what}: verdict`, "never", recoveryMs === null ? "never" : "recovers");
  }
  const lost = sample(count, (run) => lostFrom(runOpen(one, mode, `${seed}/${run}`)));
  const row = sampled(`${what}: share lost in 130 s`, ...published, lost);
  const told = one.deviation === undefined ? row : explained(row, one.deviation);
  return one.bucket === undefined ? told : { ...told, core: coreLost(one, mode, seed) };
}

function runOpen(one: OpenCase, mode: Mode, seed: number | string): Figures {
  const { bucket, policy, server } = one;
  const scenario = resolveCalls(openScenario({ policy }, server, mode));
  return figuresOf(
    runCalls(scenario, seed, bucket === undefined ? {} : { guardOf: () => bucketGuard(bucket) }),
  );
}

/** The same with core's budget. */
function coreLost({ policy, server }: OpenCase, mode: Mode, seed: number | string) {
  const retryBudget = { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } as const;
  return lostFrom(simulate(openScenario({ policy, retryBudget }, server, mode), { seed }));
}

/** The published measure, from the start of the outage: 1 - succeeded / offered. */
function lostFrom({ series }: Pick<Report, "series">): number {
  let offered = 0;
  let succeeded = 0;
  for (let bin = Math.floor(QUIET_MS / series.binMs); bin < series.offered.length; bin++) {
    offered += series.offered[bin] as number;
    succeeded += series.succeeded[bin] as number;
  }
  return offered === 0 ? 0 : 1 - succeeded / offered;
}

export const failoverOpenLab: Lab = {
  id: "failover-open",
  title: "Failover: open traffic",
  source:
    "Our own model, two independent implementations; window of 130 s from the start of the outage",
  lesson:
    "Long waits save calls only if the server sheds load, or if a durable service limits the delivery rate.",
  run: runOpenCases,
};
