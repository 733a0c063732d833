/**
 * Budgets lab: the five budgets people really run, during a total outage, and client-side adaptive
 * throttling. Bounds are the definitions' own; ours is core's implementation of them.
 */

import type { RetryBudgetDocument } from "@redrive/core";
import { createThrottle, enterThrottle, noteAccept } from "@redrive/core";
import { drawsOf } from "../chance/draws.ts";
import type { CallsDocument } from "../scenario.ts";
import { simulate } from "../simulate.ts";
import { between, type Lab, type LabRow, near } from "./lab.ts";

/** One client, 100 calls a second for 100 s, everything fails: 10,000 first tries. */
function outage(retryBudget: RetryBudgetDocument): CallsDocument {
  return {
    clients: { kind: "OPEN", ratePerSecond: 100, untilMs: 100_000 },
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
  const load = (budget: RetryBudgetDocument) => simulate(outage(budget), { seed }).amplification;
  return [
    between(
      "ratio 10 % (SRE): load at most 1.1",
      1.1,
      load({ kind: "RATIO", ratio: 0.1, minPerSecond: 0 }),
      1.08,
      1.1,
    ),
    // 20 % of 100 a second and 10 more: 30 retries a second.
    between(
      "Finagle 20 % + 10/s: load at most 1.3",
      1.3,
      load({ kind: "RATIO", ratio: 0.2, minPerSecond: 10 }),
      1.27,
      1.31,
    ),
    // 500 tokens, 14 a retry, nothing comes back: 35 retries in 10,000 calls.
    near("AWS SDK, 500 tokens of 14: load", 1.0035, load({ kind: "TOKENS" }), 0.002),
    near(
      "AWS SDK before 2.1, 500 tokens of 5: load",
      1.01,
      load({ kind: "TOKENS", costPerRetry: 5 }),
      0.002,
    ),
    // Ten tokens, retries above five: a handful.
    between("gRPC A6, 10 tokens: load", 1.0005, load({ kind: "GRPC" }), 1, 1.002),
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
    const healthy = now < 120_000;
    if (!healthy && acceptedThisSecond >= 250) continue;
    acceptedThisSecond++;
    noteAccept(throttle, now);
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
    "SRE book ch. 21; Finagle RetryBudget; gRFC A6; AWS SDK retry behaviour; Envoy retry budget",
  lesson:
    "A ratio bounds load at 1 + ratio in the long run; a bucket without refill by time is nearly silent in a total outage.",
  run: (seed) => [...budgetRows(seed), ...throttleRows(seed)],
};
