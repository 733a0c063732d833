/** Tiers lab: nested layers that all retry multiply; one layer, or budgets, do not. */
import type { PolicyDocument } from "@redrive/core";
import type { CallsDocument, TierDocument } from "../scenario.ts";
import { simulate } from "../simulate.ts";
import { tierLoad } from "../tier-load.ts";
import { between, type Lab, type LabRow, near, within } from "./lab.ts";

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

function run(seed: number | string): readonly LabRow[] {
  const load = (model: TierModel) => simulate(tierScenario(model), { seed }).amplification;
  const down = (attempts: readonly number[]) => load({ attempts, failureRate: 1 });
  return [
    within("client and gateway, 3 attempts each: calls", 9, down([3, 3]), 0),
    within("3 x 3 x 3 x 3, all down: calls", 81, down(THREES), 0),
    within("SRE book: 3 tiers of 4 attempts: calls", 64, down([4, 4, 4]), 0),
    within("AWS: 5 tiers of 3 attempts: calls", 243, down([3, 3, 3, 3, 3]), 0),
    within("only the outermost retries: calls", 3, down([3, 1, 1, 1]), 0),
    near(
      "3 x 3 x 3 x 3, 10 % fail: load",
      tierLoad(THREES, 0.1),
      load({ attempts: THREES, failureRate: 0.1 }),
      0.02,
    ),
    near(
      "50 % fail: load",
      tierLoad(THREES, 0.5),
      load({ attempts: THREES, failureRate: 0.5 }),
      0.03,
    ),
    near(
      "90 % fail: load",
      tierLoad(THREES, 0.9),
      load({ attempts: THREES, failureRate: 0.9 }),
      0.05,
    ),
    between(
      "10 % budget on each of 4 layers, all down: load",
      1.46,
      load({ attempts: THREES, failureRate: 1, budget: 0.1 }),
      1.38,
      1.465,
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
