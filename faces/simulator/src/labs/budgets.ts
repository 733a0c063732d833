/**
 * Budgets lab: the five budgets people really run, during a total outage, and client-side adaptive
 * throttling. Bounds are the definitions' own; ours is core's implementation of them.
 */

import type { RetryBudgetDocument } from "@redrive/core";
import { createThrottle, enterThrottle, recordThrottleResponse } from "@redrive/core";
import { drawsOf } from "../random/draws.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { simulate } from "../simulate/simulate.ts";
import { atMost, type Lab, type LabRow, near, within } from "./lab.ts";

const DURATION_S = 100;
const RATIO = { kind: "RATIO", minPerSecond: 0 } as const;

/** One client, 100 calls a second for 100 s, everything fails: about 10,000 first tries. */
function outage(retryBudget: RetryBudgetDocument): CallsDocument {
  return {
    clients: { kind: "OPEN", ratePerSecond: 100, untilMs: 1000 * DURATION_S },
    horizonMs: 160_000,
    tiers: [
      {
        destination: {
          policy: {
            maxAttempts: 4,
            initialDelayMs: 0,
            jitterType: "NONE",
            totalBudgetMs: 3_600_000,
          },
          retryBudget,
        },
        server: { failureRate: 1, hop: 5 },
      },
    ],
  };
}

function budgetRows(seed: number | string): readonly LabRow[] {
  const of = (budget: RetryBudgetDocument) => simulate(outage(budget), { seed });
  const load = (what: string, budget: RetryBudgetDocument, limit: (calls: number) => number) => {
    const { amplification, calls } = of(budget);
    return atMost(what, limit(calls), amplification);
  };
  const retries = (what: string, published: number, budget: RetryBudgetDocument) => {
    const { attempts, calls } = of(budget);
    return within(`${what}: retries in 100 s`, published, attempts - calls, 0);
  };
  return [
    load("ratio 10 % (SRE): load at most 1.1", { ...RATIO, ratio: 0.1 }, () => 1.1),
    // 20 % of the calls, and 10 a second.
    load(
      "Finagle 20 % + 10/s: load at most 1.2 and 1,000 retries",
      { ...RATIO, ratio: 0.2, minPerSecond: 10 },
      (calls) => 1.2 + (10 * DURATION_S) / calls,
    ),
    // Nothing comes back while everything fails: 500 / 14 and 500 / 5.
    retries("AWS SDK, 500 tokens of 14", 35, { kind: "TOKENS" }),
    retries("AWS SDK before 2.1, 500 tokens of 5", 100, { kind: "TOKENS", costPerRetry: 5 }),
    // Ten tokens, one less with each failure, retries above five: after the first four.
    retries("gRPC A6, 10 tokens", 4, { kind: "GRPC" }),
  ];
}

/** R calls a second of which the server accepts A; healthy for one window before. */
function throttled(k: number, seed: number | string): number {
  const throttle = createThrottle({ k, windowMs: 120_000 }, 0);
  const draws = drawsOf(seed, `throttle ${k}`);
  let sent = 0;
  const measureFromMs = 600_000;
  const untilMs = 900_000;
  let acceptedThisSecond = 0;
  for (let now = 0; now < untilMs; now++) {
    if (now % 1000 === 0) acceptedThisSecond = 0;
    if (!enterThrottle(throttle, now, draws.next())) continue;
    if (now >= measureFromMs) sent++;
    const isAccepted = now < 120_000 || acceptedThisSecond < 250;
    if (isAccepted) acceptedThisSecond++;
    recordThrottleResponse(throttle, now, isAccepted);
  }
  return (1000 * sent) / (untilMs - measureFromMs);
}

function throttleRows(seed: number | string): readonly LabRow[] {
  return (
    [
      [2, 500],
      [1.1, 275],
      [3, 754],
    ] as const
  ).map(([k, published]) =>
    near(
      `adaptive throttling, 1000/s wanted, 250/s accepted, K = ${k}: sent/s`,
      published,
      throttled(k, seed),
      0.02,
    ),
  );
}

export const budgetsLab: Lab = {
  id: "budgets",
  title: "Retry budgets and adaptive throttling",
  source:
    "SRE book ch. 21; Finagle RetryBudget; gRFC A6; AWS SDK retry behaviour (Envoy counts retries under way: no model here)",
  lesson:
    "A ratio bounds load at 1 + ratio in the long run; a bucket without refill by time is nearly silent in a total outage.",
  run: (seed) => [...budgetRows(seed), ...throttleRows(seed)],
};
