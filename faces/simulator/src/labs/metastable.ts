/**
 * Metastable lab: a queue whose clients retry at once after a timeout, and a dip in capacity. The law:
 * it recovers if and only if offered load times attempts per call is below capacity.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import type { Report } from "../measure/report.ts";
import { figuresOf } from "../measure/report.ts";
import type { CallsDocument, PhaseDocument, ServerDocument } from "../scenario.ts";
import { resolveCalls } from "../scenario.ts";
import { simulate } from "../simulate.ts";
import { runCalls } from "../world/calls.ts";
import { type Lab, type LabRow, near, same, within } from "./lab.ts";
import { bucketGuard } from "./own-guards.ts";

export interface QueueModel {
  readonly capacity: number;
  readonly rate: number;
  readonly retries: number;
  readonly horizonMs: number;
  readonly phase: PhaseDocument;
  readonly policy?: PolicyDocument;
  readonly destination?: DestinationDocument;
  readonly server?: ServerDocument;
  readonly clients?: number;
}

/** Poisson arrivals, one FIFO queue, exponential service, timeout 1 s, abandoned work is finished. */
export function queueModel(model: QueueModel): CallsDocument {
  const { capacity, rate, retries, horizonMs, phase } = model;
  const policy: PolicyDocument = {
    maxAttempts: retries + 1,
    initialDelayMs: 0,
    jitterType: "NONE",
    attemptTimeoutMs: 1000,
    connectTimeoutMs: 1000,
    totalBudgetMs: 3_600_000,
    ...model.policy,
  };
  return {
    name: "metastable",
    clients: { kind: "OPEN", count: model.clients ?? 1, ratePerSecond: rate },
    horizonMs,
    tiers: [
      {
        destination: { ...model.destination, policy },
        server: { capacityPerSecond: capacity, service: "EXPONENTIAL", ...model.server },
      },
    ],
    timeline: [phase],
  };
}

const DIP: PhaseDocument = { kind: "CAPACITY", factor: 0.2, atMs: 30_000, forMs: 10_000 };
const STANDSTILL: PhaseDocument = { kind: "CAPACITY", factor: 0, atMs: 30_000, forMs: 10_000 };

function verdict({ recoveryMs }: Pick<Report, "recoveryMs">): string {
  return recoveryMs === null ? "never" : "recovers";
}

/** Mean attempts a second over the last quarter of the run. */
function lateRate({ series }: Report): number {
  const from = Math.floor(series.attempts.length * 0.75);
  const late = series.attempts.subarray(from, series.attempts.length - 1);
  return (1000 * late.reduce((sum, count) => sum + count, 0)) / (late.length * series.binMs);
}

function bronsonRows(seed: number | string): readonly LabRow[] {
  const bronson = (rate: number, horizonMs: number) =>
    simulate(queueModel({ capacity: 300, rate, retries: 1, horizonMs, phase: STANDSTILL }), {
      seed,
    });
  const collapsed = bronson(280, 150_000);
  return [
    near(
      "300/s, 280 offered, 1 retry, 10 s standstill: attempts a second for ever",
      560,
      lateRate(collapsed),
      0.03,
    ),
    same("the same: verdict", "never", verdict(collapsed)),
    same("155 offered: verdict", "never", verdict(bronson(155, 400_000))),
    same("145 offered: verdict", "recovers", verdict(bronson(145, 600_000))),
  ];
}

function dipRows(seed: number | string): readonly LabRow[] {
  const dip = (rate: number, retries: number, horizonMs: number) =>
    simulate(queueModel({ capacity: 1000, rate, retries, horizonMs, phase: DIP }), { seed });
  const recovery = (rate: number, published: number) => {
    const { recoveryMs } = dip(rate, 0, 150_000);
    return near(
      `1000/s, ${rate} offered, no retry: s to recover`,
      published,
      (recoveryMs ?? 1e9) / 1000,
      0.15,
    );
  };
  return [
    same("1000/s, 240 offered, 3 retries: verdict", "recovers", verdict(dip(240, 3, 240_000))),
    same("260 offered: verdict", "never", verdict(dip(260, 3, 240_000))),
    recovery(700, 13),
    recovery(800, 27),
    recovery(900, 62),
  ];
}

const DIP_700 = { capacity: 1000, rate: 700, retries: 3, horizonMs: 140_000, phase: DIP } as const;

function ladderRows(seed: number | string): readonly LabRow[] {
  const full = (initialDelayMs: number) =>
    simulate(
      queueModel({
        ...DIP_700,
        policy: { initialDelayMs, maxDelayMs: 60_000, jitterType: "FULL" },
      }),
      { seed },
    );
  const immediate = simulate(queueModel(DIP_700), { seed });
  const bounded = simulate(queueModel({ ...DIP_700, server: { queueMs: 500 } }), { seed });
  const dropping = simulate(queueModel({ ...DIP_700, server: { dropsExpired: true } }), { seed });
  return [
    same("700 offered, 3 at once: verdict", "never", verdict(immediate)),
    near("the same: load against offered", 4.05, lateRate(immediate) / 700, 0.15),
    ...[100, 1000, 10_000].map((ms) =>
      same(`full jitter from ${ms} ms: verdict`, "never", verdict(full(ms))),
    ),
    within("queue bounded to 0.5 s: s to recover", 0, (bounded.recoveryMs ?? 1e9) / 1000, 3),
    within("server drops expired work: s to recover", 5, (dropping.recoveryMs ?? 1e9) / 1000, 3),
  ];
}

/** Budgets as buckets: deposits of a share per success (or per first try), one retry costs 1. */
function budgetRows(seed: number | string): readonly LabRow[] {
  const budget = (ratio: number, size: number, on: "success" | "first") =>
    figuresOf(
      runCalls(resolveCalls(queueModel(DIP_700)), seed, {
        ownGuard: () => bucketGuard({ ratio, size, on }),
      }),
    );
  const recovery = (what: string, published: number, size: number) => {
    const { recoveryMs } = budget(0.1, size, "success");
    return near(`${what}: s to recover`, published, (recoveryMs ?? 1e9) / 1000, 0.15);
  };
  const core = simulate(
    queueModel({
      ...DIP_700,
      destination: { retryBudget: { kind: "RATIO", ratio: 0.1, minPerSecond: 0 } },
    }),
    { seed },
  );
  return [
    {
      ...recovery("budget 10 % on success, bucket of 100", 13, 100),
      core: (core.recoveryMs ?? 1e9) / 1000,
    },
    recovery("bucket of 10,000: oversized buckets hurt", 47, 10_000),
    same("budget 50 % on first tries: verdict", "never", verdict(budget(0.5, 100, "first"))),
  ];
}

export const metastableLab: Lab = {
  id: "metastable",
  title: "Metastable failure: a queue that never drains",
  source:
    "Bronson et al., Metastable Failures in Distributed Systems, HotOS 2021; Huang et al., OSDI 2022",
  lesson:
    "Jitter spreads retries, it does not make them fewer: only a budget, a bounded queue or a breaker ends the loop.",
  run: (seed) => [...bronsonRows(seed), ...dipRows(seed), ...ladderRows(seed), ...budgetRows(seed)],
};
