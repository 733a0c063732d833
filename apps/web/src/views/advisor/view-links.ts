/** View links: opens the advised policy in the other views, with the outage from the answers. */
import { type Advice, type Answers, LINT_CLIENTS, type ScenarioDocument } from "@redrive/simulator";
import type { SharedRun } from "@redrive/simulator/share";
import { FIRST_SEED } from "../seed.ts";
import { questionOf } from "./answers.ts";

export interface ViewLink {
  readonly label: string;
  run(): SharedRun;
}

export function outageOf(answers: Answers): number {
  return answers.outageMs ?? Number(questionOf("outageMs").fallback);
}

export function viewLinks(advice: Advice, answers: Answers): readonly ViewLink[] {
  const { policy, context } = advice;
  const clients = context.clients ?? LINT_CLIENTS;
  return [
    {
      label: "Curve",
      run: () => ({ view: "curve", seed: FIRST_SEED, policy, outageMs: outageOf(answers) }),
    },
    {
      label: "Herd",
      run: () => ({
        view: "herd",
        seed: FIRST_SEED,
        strategies: [
          { name: "advised", policy },
          { name: "without jitter", policy: { ...policy, jitterType: "NONE" } },
        ],
        clients: Math.max(LINT_CLIENTS, clients),
        windowMs: Math.max(1, Math.round((policy.initialDelayMs ?? 100) / 10)),
      }),
    },
    {
      label: "System",
      run: () => ({
        view: "system",
        seed: FIRST_SEED,
        scenarios: [scenarioOf(advice, outageOf(answers))],
      }),
    },
  ];
}

/** Time before the outage. */
const WARM_UP_MS = 10_000;
const DAY_MS = 86_400_000;

/** Enough for a chart, few enough for a phone. */
const MAX_CALLS = 40_000;
const MAX_PER_SECOND = 200;

/** Open traffic against a server with 1.5 times the needed capacity, and the outage in the middle. */
export function scenarioOf({ destination, context }: Advice, outageMs: number): ScenarioDocument {
  const horizonMs = Math.min(DAY_MS, WARM_UP_MS + outageMs + Math.max(60_000, outageMs));
  const ratePerSecond = Math.max(
    1,
    Math.min(MAX_PER_SECOND, Math.floor((MAX_CALLS * 1000) / horizonMs)),
  );
  const { clients = LINT_CLIENTS, shards = 1 } = context;
  return {
    name: "advised",
    description: "The advised policy under open traffic, with the outage from the answers.",
    horizonMs,
    clients: { kind: "OPEN", count: Math.min(1000, clients), ratePerSecond },
    tiers: [
      {
        name: "dependency",
        destination,
        ...(shards > 1 && { breakerPerShard: true }),
        server: {
          capacityPerSecond: 1.5 * ratePerSecond,
          service: "EXPONENTIAL",
          queueMs: 500,
          ...(shards > 1 && { shards }),
        },
      },
    ],
    timeline:
      outageMs === 0
        ? []
        : [
            {
              kind: "OUTAGE",
              atMs: WARM_UP_MS,
              forMs: Math.min(outageMs, horizonMs - WARM_UP_MS),
            },
          ],
  };
}
