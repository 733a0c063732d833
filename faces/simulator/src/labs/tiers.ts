/** Tiers lab: nested layers that all retry multiply; one layer, or budgets, do not. */
import type { PolicyDocument } from "@redrive/core";
import type { CallsDocument, TierDocument } from "../scenario/scenario-document.ts";
import { simulate } from "../simulate/simulate.ts";
import { atMost, type Lab, type LabRow, runs, sample, sampled, within } from "./lab.ts";

const AT_ONCE: PolicyDocument = {
  initialDelayMs: 0,
  jitterType: "NONE",
  attemptTimeoutMs: 600_000,
  totalBudgetMs: 3_600_000,
};

export interface TierModel {
  /** Attempts of each layer, outermost first. */
  readonly attempts: readonly number[];
  /** Share of calls that the last tier fails. */
  readonly failureRate: number;
  /** Budget of every layer, as a share of first tries; left out: none. */
  readonly budget?: number;
}

/** A chain of tiers in which only the last fails. */
export function tierScenario({ attempts, failureRate, budget }: TierModel): CallsDocument {
  // What always fails needs few calls to count, what fails by chance many.
  const untilMs = failureRate === 1 && budget === undefined ? 1000 : 30_000;
  const last = attempts.length - 1;
  const tiers = attempts.map(
    (maxAttempts, index): TierDocument => ({
      destination: {
        policy: { ...AT_ONCE, maxAttempts },
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

function run(seed: number | string, effort: number): readonly LabRow[] {
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
  source: "SRE book ch. 22 (64); AWS Builders' Library (243); the seed's 81; closed form",
  lesson:
    "Let one layer retry. While the last tier fails one call in ten, four layers cost only 1.11 times; it is the total outage that multiplies.",
  run,
};
