/**
 * Jitter labs: what jitter does to the waits alone, without a server that could be overloaded: the
 * peak of a herd, the coverage of an outage and the contention for one row.
 */
import type { PolicyDocument } from "@redrive/core";
import { power } from "../engine/numeric.ts";
import { coverage } from "../schedule/coverage.ts";
import { herd } from "../schedule/herd.ts";
import { type ContentionWait, runContention } from "../worlds/contention.ts";
import { type Lab, type LabRow, near, runs, same, sample, sampled, within } from "./lab.ts";

// Herd lab: the peak of retries after all clients fail at one instant, by jitter and by window width.

/** The base b. It is large, so rounding to whole ms does not matter. */
const BASE_MS = 100_000;

function policyOf(rest: PolicyDocument): PolicyDocument {
  return {
    initialDelayMs: BASE_MS,
    maxDelayMs: 30 * BASE_MS,
    maxAttempts: 6,
    totalBudgetMs: 1000 * BASE_MS,
    ...rest,
  };
}

const NONE: PolicyDocument = { jitterType: "NONE" };
const EQUAL: PolicyDocument = { jitterType: "EQUAL" };
const FULL: PolicyDocument = { jitterType: "FULL" };
const DECORRELATED: PolicyDocument = { jitterType: "DECORRELATED" };

function peakShare(
  policy: PolicyDocument,
  clients: number,
  windowMs: number,
  seed: string | number,
) {
  return herd(policyOf(policy), { clients, windowMs, seed }).peak.share;
}

/** Without randomness, all retries arrive in one window. */
function combRows(seed: number | string): readonly LabRow[] {
  return (
    [
      ["fixed", { ...NONE, backoff: "FIXED" }],
      ["linear", { ...NONE, backoff: "LINEAR" }],
      ["exponential", NONE],
    ] as const
  ).map(([name, policy]) =>
    within(
      `${name}, window b/10: peak as share of 10,000`,
      1,
      peakShare(policy, 10_000, BASE_MS / 10, seed),
      0,
    ),
  );
}

/** The stated tolerances are for 10,000 clients. */
function statedRows(seed: number | string): readonly LabRow[] {
  return (
    [
      ["equal", EQUAL, 0.205, 0.04],
      ["full", FULL, 0.153, 0.04],
      ["decorrelated", DECORRELATED, 0.0659, 0.06],
    ] as const
  ).map(([name, policy, published, share]) => {
    const ours = peakShare(policy, 10_000, BASE_MS / 10, seed);
    return near(`${name}, window b/10: peak as share of 10,000`, published, ours, share);
  });
}

const MILLION: readonly (readonly [string, PolicyDocument, number, number])[] = [
  ["equal, window b/10", EQUAL, 0.1, 0.201],
  ["full, window b/10", FULL, 0.1, 0.154],
  ["decorrelated, window b/10", DECORRELATED, 0.1, 0.065],
  ["equal, window b", EQUAL, 1, 1],
  ["full, window b: higher than the comb", FULL, 1, 1.272],
  ["decorrelated, window b", DECORRELATED, 1, 0.588],
];

function sampledRows(seed: number | string, effort: number): readonly LabRow[] {
  const large = runs(5, effort, 3);
  const small = runs(400, effort, 100);
  const shares = (policy: PolicyDocument, clients: number, windowMs: number, count: number) =>
    sample(count, (run) => peakShare(policy, clients, windowMs, `${seed}/${run}`));
  return [
    ...MILLION.map(([what, policy, bases, published]) =>
      sampled(
        `${what}: peak as share of 1,000,000`,
        published,
        0.001,
        shares(policy, 1_000_000, bases * BASE_MS, large),
      ),
    ),
    ...(
      [
        ["equal", EQUAL, 0.255, 0.001],
        ["full", FULL, 0.19, 0.01],
        ["decorrelated", DECORRELATED, 0.103, 0.001],
      ] as const
    ).map(([name, policy, published, unit]) =>
      sampled(
        `${name}, window b/10: peak as share of 100`,
        published,
        unit,
        shares(policy, 100, BASE_MS / 10, small),
      ),
    ),
  ];
}

export const herdLab: Lab = {
  id: "herd",
  title: "Synchronized retries: how many arrive in one window",
  source: "Our own model, two independent implementations",
  lesson:
    "In a narrow window, jitter divides the peak by five to fifteen. In a window as wide as the base, full jitter has a higher peak than no jitter.",
  run: (seed, effort) => [...combRows(seed), ...statedRows(seed), ...sampledRows(seed, effort)],
};

// Coverage lab: whether a policy outlasts an outage of 8 s.

type CoverageCase = readonly [string, PolicyDocument, number];

const FAST: PolicyDocument = { initialDelayMs: 100, maxDelayMs: 20_000, totalBudgetMs: 3_600_000 };
const SLOW: PolicyDocument = { initialDelayMs: 1000, maxDelayMs: 30_000, totalBudgetMs: 3_600_000 };

const COVERAGE_CASES: readonly CoverageCase[] = [
  ["100 ms, 7 retries, exponential", { ...FAST, maxAttempts: 8, jitterType: "NONE" }, 1],
  ["100 ms, 7 retries, equal", { ...FAST, maxAttempts: 8, jitterType: "EQUAL" }, 0.92],
  ["100 ms, 7 retries, full", { ...FAST, maxAttempts: 8 }, 0.25],
  [
    "100 ms, 7 retries, decorrelated",
    { ...FAST, maxAttempts: 8, jitterType: "DECORRELATED" },
    0.34,
  ],
  ["100 ms, 9 retries, full", { ...FAST, maxAttempts: 10 }, 0.99],
  [
    "100 ms, 9 retries, decorrelated",
    { ...FAST, maxAttempts: 10, jitterType: "DECORRELATED" },
    0.58,
  ],
  [
    "100 ms, 11 retries, decorrelated",
    { ...FAST, maxAttempts: 12, jitterType: "DECORRELATED" },
    0.75,
  ],
  ["1 s, 4 retries, full", { ...SLOW, maxAttempts: 5 }, 0.44],
  ["1 s, 4 retries, decorrelated", { ...SLOW, maxAttempts: 5, jitterType: "DECORRELATED" }, 0.91],
];

function coverageRows(seed: number | string): readonly LabRow[] {
  return COVERAGE_CASES.map(([what, policy, published]) =>
    within(`${what}: chance to outlast 8 s`, published, coverage(policy, 8000, { seed }), 0.02),
  );
}

export const coverageLab: Lab = {
  id: "coverage",
  title: "Does the policy outlast the outage?",
  source: "Our own model, two independent implementations (no published tool shows it)",
  lesson:
    "Decorrelated jitter is a random walk: with eleven retries a quarter of the calls still gives up within 8 s.",
  run: coverageRows,
};

// Optimistic concurrency lab: Brooker's contention model of 2015. The published formula counts from
// n = 1 (the first wait is up to 2b) and caps decorrelated jitter last. The rows also have core's
// result with the same first ceiling.

const ROW_BASE_MS = 5;
const ROW_CAP_MS = 2000;

type Strategy = "none" | "exponential" | "equal" | "full" | "decorrelated";

function ceiling(attempt: number): number {
  return Math.min(ROW_CAP_MS, ROW_BASE_MS * power(2, attempt));
}

function waitOf(strategy: Strategy, clientCount: number): ContentionWait {
  const previous = new Float64Array(clientCount).fill(ROW_BASE_MS);
  switch (strategy) {
    case "none":
      return () => 0;
    case "exponential":
      return (attempt) => ceiling(attempt);
    case "equal":
      return (attempt, _, draws) => (ceiling(attempt) / 2) * (1 + draws.next());
    case "full":
      return (attempt, _, draws) => ceiling(attempt) * draws.next();
    case "decorrelated":
      return (_, client, draws) => {
        const top = 3 * (previous[client] as number);
        previous[client] = Math.min(ROW_CAP_MS, ROW_BASE_MS + (top - ROW_BASE_MS) * draws.next());
        return previous[client] as number;
      };
  }
}

/** Mean writes and mean time of `count` runs with `clientCount` writers. */
function measureStrategy(
  strategy: Strategy,
  clientCount: number,
  count: number,
  seed: number | string,
): { calls: number; timeMs: number } {
  let calls = 0;
  let timeMs = 0;
  for (let run = 0; run < count; run++) {
    const { tally } = runContention(
      { world: "CONTENTION", clientCount },
      { seed: `${seed}/${strategy}/${run}`, wait: waitOf(strategy, clientCount) },
    );
    calls += tally.attempts;
    timeMs += tally.doneAtMs;
  }
  return { calls: calls / count, timeMs: timeMs / count };
}

const JITTER = {
  exponential: "NONE",
  equal: "EQUAL",
  full: "FULL",
  decorrelated: "DECORRELATED",
} as const;

/** The same with core's policy: whole ms, first ceiling 10 ms (2b), range capped first. */
function coreCalls(
  strategy: Exclude<Strategy, "none">,
  count: number,
  seed: number | string,
): number {
  const initialDelayMs = strategy === "decorrelated" ? ROW_BASE_MS : 2 * ROW_BASE_MS;
  const policy = {
    initialDelayMs,
    maxDelayMs: ROW_CAP_MS,
    jitterType: JITTER[strategy],
    maxAttempts: 1000,
    totalBudgetMs: 86_400_000,
  };
  let calls = 0;
  for (let run = 0; run < count; run++) {
    calls += runContention(
      { world: "CONTENTION", policy },
      { seed: `${seed}/core/${strategy}/${run}` },
    ).tally.attempts;
  }
  return calls / count;
}

/** Calls and ms at N = 100, from 400 runs of the reference implementations. */
const PUBLISHED: Readonly<Record<Strategy, readonly [number, number]>> = {
  none: [2419, 2027],
  exponential: [1852, 63_274],
  equal: [813, 6645],
  full: [796, 4885],
  decorrelated: [1001, 4652],
};

function contentionRows(seed: number | string, effort: number): readonly LabRow[] {
  const rows: LabRow[] = [];
  const calls: [string, number][] = [];
  const times: [string, number][] = [];
  for (const [name, [publishedCalls, publishedMs]] of Object.entries(PUBLISHED)) {
    const strategy = name as Strategy;
    const close = strategy === "full" || strategy === "decorrelated";
    const measured = measureStrategy(strategy, 100, runs(close ? 400 : 200, effort, 20), seed);
    const row = near(`${name}: writes of 100 clients`, publishedCalls, measured.calls, 0.03);
    rows.push(
      strategy === "none" ? row : { ...row, core: coreCalls(strategy, runs(40, effort, 5), seed) },
    );
    rows.push(near(`${name}: ms until all are done`, publishedMs, measured.timeMs, 0.05));
    calls.push([name, measured.calls]);
    times.push([name, measured.timeMs]);
  }
  rows.push(
    same("order by writes", "none > exponential > decorrelated > equal > full", order(calls)),
  );
  rows.push(
    same("order by time", "exponential > equal > full > decorrelated > none", order(times)),
  );
  return rows;
}

function order(figures: readonly (readonly [string, number])[]): string {
  return [...figures]
    .sort((a, b) => b[1] - a[1])
    .map(([name]) => name)
    .join(" > ");
}

export const occLab: Lab = {
  id: "occ",
  title: "Contention on one row: which backoff, which jitter",
  source:
    "Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015; aws-arch-backoff-simulator",
  lesson:
    "Full jitter needs less than half the writes of plain exponential. No backoff finishes first with three times the writes, because the model has no server that could be overloaded.",
  run: contentionRows,
};
