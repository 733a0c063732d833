/**
 * Open failover lab: the database is away for 8 s while calls keep coming, and deferred retries meet
 * new calls.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { type Figures, figuresOf, type Report } from "../measure/report.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type {
  CallsDocument,
  PhaseDocument,
  ServerDocument,
} from "../scenario/scenario-document.ts";
import { simulate } from "../simulate/simulate.ts";
import { runCalls } from "../worlds/calls/calls.ts";
import { explained, type Lab, type LabRow, runs, same, sample, sampled } from "./lab.ts";
import { type BucketOptions, bucketGuard } from "./published-guards.ts";

/** Share lost and the unit of its last digit; or it never recovers. */
type Published = readonly [share: number, unit: number] | "never";

interface OpenCase {
  readonly what: string;
  readonly policy: PolicyDocument;
  readonly server?: ServerDocument;
  /** In 130 s from the start of the outage, failing fast and hanging. */
  readonly published: readonly [Published, Published];
  /** A budget as the reference has it; core's own stands beside the row. */
  readonly bucket?: BucketOptions;
  /** Why it does not come out, if it does not. */
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

const CASES: readonly OpenCase[] = [
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
      "published is 6 to 16 %, and no size of the bucket; here 5 per client, as in the load lab; with 1 it is 16 %",
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

/** Trouble after quiet seconds. */
const QUIET_MS = 5000;

/** 400 instances of 5 calls a second against 3,000/s, at a quarter of its size (the shape does not depend on it). */
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
  return CASES.flatMap((one) => MODES.map((mode) => caseRow(one, mode, seed, count)));
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
    runCalls(
      scenario,
      seed,
      bucket === undefined ? {} : { customGuard: () => bucketGuard(bucket) },
    ),
  );
}

/** The same with core's own budget. */
function coreLost({ policy, server }: OpenCase, mode: Mode, seed: number | string) {
  const retryBudget = { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } as const;
  return lostFrom(simulate(openScenario({ policy, retryBudget }, server, mode), { seed }));
}

/** The published measure, from the start of the outage on: 1 - succeeded / offered. */
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
  title: "The failover story: open traffic",
  source:
    "Own reference, two independent implementations; window of 130 s from the start of the outage",
  lesson:
    "Patience saves requests only if the server sheds load, or if a durable service paces delivery.",
  run: runOpenCases,
};
