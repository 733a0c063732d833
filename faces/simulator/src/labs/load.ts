/**
 * Load labs: how much load retries add at a given failure rate and in nested layers, and how many
 * calls they save (Brooker, February and August 2022). The server has no capacity limit and fails
 * at random.
 */
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import { power } from "../engine/numeric.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument, TierDocument } from "../scenario/scenario-document.ts";
import type { CustomGuard } from "../worlds/caller.ts";
import { runCalls } from "../worlds/calls.ts";
import { type Figures, figuresOf } from "../worlds/report.ts";
import { simulate } from "../worlds/simulate.ts";
import {
  atMost,
  between,
  explained,
  type Lab,
  type LabRow,
  near,
  runs,
  same,
  sample,
  sampled,
  within,
} from "./lab.ts";
import { bucketGuard, lifetimeGuard } from "./published-guards.ts";

const AT_ONCE: PolicyDocument = { initialDelayMs: 0, jitterType: "NONE", totalBudgetMs: 3_600_000 };

interface LoadModel {
  readonly failureRate: number;
  readonly retries: number;
  readonly clients?: number;
  readonly ratePerSecond?: number;
  readonly durationMs?: number;
  readonly guardOf?: () => CustomGuard;
  readonly destination?: DestinationDocument;
}

/**
 * 100 clients with 10 calls per second for 10 s, a network delay of Exp(10 ms), then time to
 * finish.
 */
function loadScenario(model: LoadModel): CallsDocument {
  const { failureRate, retries, clients = 100, ratePerSecond = 1000, durationMs = 10_000 } = model;
  return {
    clients: { kind: "OPEN", count: clients, ratePerSecond, untilMs: durationMs },
    horizonMs: durationMs + 60_000,
    tiers: [
      {
        destination: { policy: { ...AT_ONCE, maxAttempts: retries + 1 }, ...model.destination },
        server: { failureRate, hop: { kind: "EXPONENTIAL", meanMs: 10 } },
      },
    ],
  };
}

function runModel(model: LoadModel, seed: number | string): Figures {
  return figuresOf(runCalls(resolveCalls(loadScenario(model)), seed, { guardOf: model.guardOf }));
}

function closedForms(seed: number | string): readonly LabRow[] {
  return [0.01, 0.05, 0.1, 0.2, 0.5, 1].flatMap((f) => {
    const { amplification, goodput } = runModel({ failureRate: f, retries: 3 }, seed);
    const load = f === 1 ? 4 : (1 - power(f, 4)) / (1 - f);
    return [
      near(`3 retries, ${f * 100} % fail: load`, load, amplification, 0.02),
      within(`3 retries, ${f * 100} % fail: success`, 1 - power(f, 4), goodput, 0.02),
    ];
  });
}

/** "As coded": no limit per call, deposits on first attempts. "On success": at most 3 retries. */
const CODED = { retries: 999, guardOf: () => bucketGuard({ ratio: 0.1, size: 5, on: "first" }) };
const ON_SUCCESS = {
  retries: 3,
  guardOf: () => bucketGuard({ ratio: 0.1, size: 5, on: "success" }),
};
const LIFETIME = { retries: 3, guardOf: () => lifetimeGuard(0.1) };

/** Failure rate; published success in percent and load; unit of the published success. */
type Cell = readonly [f: number, ok: number, load: number, unit: number];

const TABLE: readonly (readonly [string, Omit<LoadModel, "failureRate">, readonly Cell[]])[] = [
  [
    "no retry",
    { retries: 0 },
    [
      [0.01, 99, 1, 0.1],
      [0.05, 95, 1, 0.1],
      [0.1, 90, 1, 0.1],
      [0.2, 80, 1, 0.1],
      [0.5, 50, 1, 0.1],
    ],
  ],
  [
    "bucket as coded",
    CODED,
    [
      [0.01, 100, 1.011, 0.1],
      [0.05, 99.98, 1.053, 0.01],
      [0.1, 99.1, 1.102, 0.1],
      [0.2, 90.4, 1.134, 0.1],
      [0.5, 57.2, 1.141, 0.1],
      [1, 0, 1.143, 0.1],
    ],
  ],
  [
    "bucket on success",
    ON_SUCCESS,
    [
      [0.01, 100, 1.011, 0.1],
      [0.05, 99.98, 1.054, 0.01],
      [0.1, 99.1, 1.102, 0.1],
      [0.2, 89.8, 1.125, 0.1],
      [0.5, 55, 1.097, 0.1],
      [1, 0, 1.049, 0.1],
    ],
  ],
  [
    "retry breaker 10 %",
    LIFETIME,
    [
      [0.01, 99.9, 1.01, 0.1],
      [0.05, 98.5, 1.038, 0.1],
      [0.1, 92.6, 1.03, 0.1],
      [0.2, 80, 1.003, 0.1],
      [0.5, 50.1, 1, 0.1],
      [1, 0, 1, 0.1],
    ],
  ],
];

function tableRows(seed: number | string, count: number): readonly LabRow[] {
  return TABLE.flatMap(([name, model, cells]) =>
    cells.flatMap(([failureRate, ok, load, unit]) => {
      const what = `${name}, ${failureRate * 100} % fail`;
      const all = sample(count, (run) => runModel({ ...model, failureRate }, `${seed}/${run}`));
      const success = all.map(({ goodput }) => 100 * goodput);
      const loads = all.map(({ amplification }) => amplification);
      return [
        sampled(`${what}: success in %`, ok, unit, success),
        ...(model.retries === 0 ? [] : [sampled(`${what}: load`, load, 0.001, loads)]),
      ];
    }),
  );
}

/** Long runs, and short-lived clients. */
function longAndShort(seed: number | string, count: number): readonly LabRow[] {
  const loads = (model: LoadModel) =>
    sample(count, (run) => runModel(model, `${seed}/${run}`).amplification);
  const long = (own: Omit<LoadModel, "failureRate">) =>
    loads({ ...own, failureRate: 1, durationMs: 100_000 });
  const ofClients = (own: Omit<LoadModel, "failureRate">) =>
    [10, 100, 1000].map((clients) =>
      loads({ ...own, failureRate: 0.5, clients, ratePerSecond: 100 }),
    );
  const coded = long(CODED);
  const [few = [], some = [], many = []] = ofClients(CODED);
  const breakers = ofClients(LIFETIME).flat();
  const [small, middle, large] = [few, some, many].map((values) => Math.max(...values));
  return [
    within("bucket as coded, all fail, 100 s: load", 1.1, coded[0] as number, 0.01),
    sampled("the same, to three digits", 1.104, 0.001, coded),
    sampled("bucket on success, all fail, 100 s: load", 1.005, 0.001, long(ON_SUCCESS)),
    sampled("bucket, 10 clients of 10 calls/s: load", 1.14, 0.01, few),
    sampled("bucket, 100 clients of 1 call/s: load", 1.46, 0.01, some),
    sampled("bucket, 1,000 clients of 0.1 call/s: load", 1.88, 0.01, many),
    same(
      "load grows with the number of clients",
      "yes",
      Number(small) < Number(middle) && Number(middle) < Number(large) ? "yes" : "no",
    ),
    sampled("retry breaker, any of these: load", 1, 0.01, breakers),
  ];
}

/** Backoff reduces load only if clients wait for it (closed loop). */
const BACKOFF: PolicyDocument = {
  ...AT_ONCE,
  maxAttempts: 4,
  initialDelayMs: 100,
  maxDelayMs: 60_000,
};

function serial(failureRate: number, seed: number | string): Figures {
  const document: CallsDocument = {
    clients: { kind: "CLOSED", count: 100, think: { kind: "EXPONENTIAL", meanMs: 100 } },
    horizonMs: 30_000,
    tiers: [
      {
        destination: { policy: BACKOFF },
        server: { failureRate, hop: { kind: "EXPONENTIAL", meanMs: 10 } },
      },
    ],
  };
  return figuresOf(runCalls(resolveCalls(document), seed));
}

const NO_PAUSE_KNOWN =
  "the source does not give the pause between the calls of a serial client; ours is Exp(100 ms), the mean of its open clients";

function backoffRows(seed: number | string, count: number): readonly LabRow[] {
  const open = (destination?: DestinationDocument) =>
    runModel({ failureRate: 0.5, retries: 3, ...(destination && { destination }) }, seed)
      .amplification;
  const healthy = serial(0, seed).calls;
  const half = sample(count, (run) => serial(0.5, `${seed}/${run}`));
  const threeQuarters = sample(count, (run) => serial(0.75, `${seed}/${run}`));
  const attempts = (all: readonly Figures[]) => all.map((one) => one.attempts / healthy);
  const firsts = (all: readonly Figures[]) => all.map((one) => one.calls / healthy);
  const load = sampled("serial clients, 50 % fail: load", 0.82, 0.01, attempts(half));
  const unknown = (row: LabRow) => explained(row, NO_PAUSE_KNOWN);
  return [
    near("open clients at once, 50 % fail: load", 1.85, open(), 0.04),
    near("open clients with backoff, 50 % fail: load", 1.85, open({ policy: BACKOFF }), 0.04),
    between("the same: more than 1.75", 1.85, open({ policy: BACKOFF }), 1.75, 4),
    between("serial clients, 50 % fail: less than 0.9", 0.82, load.ours as number, 0, 0.9),
    unknown(load),
    unknown(sampled("serial clients, 50 % fail: first tries", 0.44, 0.01, firsts(half))),
    unknown(sampled("serial clients, 75 % fail: load", 0.64, 0.01, attempts(threeQuarters))),
    unknown(sampled("serial clients, 75 % fail: first tries", 0.23, 0.01, firsts(threeQuarters))),
  ];
}

export const loadLab: Lab = {
  id: "load",
  title: "Load by failure rate: what retries cost and save",
  source:
    "Brooker, Fixing retries with token buckets and circuit breakers (Feb 2022), What is Backoff For? (Aug 2022)",
  lesson:
    "A bucket per client limits the load only of long-lived clients: 1,000 short-lived clients reach 1.88 times. Backoff reduces the load of closed clients, but never of open traffic.",
  run: (seed, effort) => [
    ...closedForms(seed),
    ...tableRows(seed, runs(20, effort, 8)),
    ...longAndShort(seed, runs(10, effort, 5)),
    ...backoffRows(seed, runs(10, effort, 5)),
  ],
};

// Tiers lab: the attempts of nested layers multiply if all layers retry, but not with one retrying
// layer or with budgets.

/** Outer layers wait for all attempts of the inner ones. */
const NESTED: PolicyDocument = { ...AT_ONCE, attemptTimeoutMs: 600_000 };

interface TierModel {
  /** Attempts of each layer, outermost first. */
  readonly attempts: readonly number[];
  /** Share of the calls that the last tier fails. */
  readonly failureRate: number;
  /** Budget of every layer, as a share of first attempts. Default: none. */
  readonly budget?: number;
}

/** A chain of tiers in which only the last fails. */
function tierScenario({ attempts, failureRate, budget }: TierModel): CallsDocument {
  // A total outage needs few calls for an exact count; random failures need many.
  const untilMs = failureRate === 1 && budget === undefined ? 1000 : 30_000;
  const last = attempts.length - 1;
  const tiers = attempts.map(
    (maxAttempts, index): TierDocument => ({
      destination: {
        policy: { ...NESTED, maxAttempts },
        ...(budget !== undefined && {
          retryBudget: { kind: "RATIO", ratio: budget, minPerSecond: 0 },
        }),
      },
      server: { hop: 1, ...(index === last && { failureRate }) },
    }),
  );
  return {
    clients: { kind: "OPEN", ratePerSecond: 200, untilMs },
    horizonMs: 200_000,
    tiers,
  };
}

const THREES = [3, 3, 3, 3] as const;

function tierRows(seed: number | string, effort: number): readonly LabRow[] {
  const count = runs(10, effort, 8);
  const load = (model: TierModel, run = 0) =>
    simulate(tierScenario(model), { seed: `${seed}/${run}` }).amplification;
  const down = (attempts: readonly number[]) => load({ attempts, failureRate: 1 });
  const chance = (failureRate: number, published: number, unit: number) => {
    const loads = sample(count, (run) => load({ attempts: THREES, failureRate }, run));
    return sampled(`3 x 3 x 3 x 3, ${failureRate * 100} % fail: load`, published, unit, loads, {
      exact: true,
    });
  };
  return [
    within("client and gateway, 3 attempts each: calls", 9, down([3, 3]), 0),
    within("3 x 3 x 3 x 3, all down: calls", 81, down(THREES), 0),
    within("SRE book: 3 tiers of 4 attempts: calls", 64, down([4, 4, 4]), 0),
    within("AWS: 5 tiers of 3 attempts: calls", 243, down([3, 3, 3, 3, 3]), 0),
    within("only the outermost retries: calls", 3, down([3, 1, 1, 1]), 0),
    chance(0.1, 1.11, 0.01),
    chance(0.5, 2, 0.1),
    chance(0.9, 10, 1),
    atMost(
      "10 % budget on each of 4 layers, all down: load at most 1.1^4",
      1.4641,
      load({ attempts: THREES, failureRate: 1, budget: 0.1 }),
    ),
  ];
}

export const tiersLab: Lab = {
  id: "tiers",
  title: "Nested layers multiply",
  source: "SRE book ch. 22 (64); AWS Builders' Library (243); closed form",
  lesson:
    "Let one layer retry. If the last tier fails one call in ten, four layers cost only 1.11 times; a total outage multiplies the load.",
  run: tierRows,
};
