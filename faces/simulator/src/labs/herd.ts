/** Herd lab: peaks of a herd that fails at one instant, by jitter and by width of the window. */
import type { PolicyDocument } from "@redrive/core";
import { herd } from "../schedule/herd.ts";
import { type Lab, type LabRow, near, runs, sample, sampled, within } from "./lab.ts";

/** The base b; large, so that whole milliseconds do not matter. */
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

/** Nothing is left to chance: all arrive in one window. */
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

/** The tolerances that the reference states are for 10,000 clients. */
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
  title: "The comb: how many retries arrive in one window",
  source: "Own reference, two independent implementations; the seed's 100 / 25 / 18 has no source",
  lesson:
    "Jitter divides the peak by five to fifteen in a narrow window. In a window as wide as the base, full jitter peaks above the comb.",
  run: (seed, effort) => [...combRows(seed), ...statedRows(seed), ...sampledRows(seed, effort)],
};
