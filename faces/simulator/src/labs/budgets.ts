/**
 * Budget labs: what retry budgets and adaptive throttling let through, in a total outage, in
 * overload and at a cold start.
 */
import {
  createThrottle,
  enterThrottle,
  type RetryBudgetDocument,
  recordThrottleResponse,
  SUCCESS,
} from "@redrive/core";
import { type Draws, drawsOf } from "../engine/draws.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { runCalls } from "../worlds/calls.ts";
import { figuresOf } from "../worlds/report.ts";
import { simulate } from "../worlds/simulate.ts";
import { simulateCalls } from "../worlds/simulate-calls.ts";
import { atMost, type Lab, type LabRow, near, runs, sample, sampled, within } from "./lab.ts";

// Budgets lab: the five common budgets during a total outage, and client-side adaptive throttling.
// The bounds follow from the definitions; our values come from core's implementation.

const DURATION_S = 100;
const RATIO = { kind: "RATIO", minPerSecond: 0 } as const;

/** One client, 100 calls per second for 100 s, every call fails: about 10,000 first attempts. */
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
    // 20 % of the calls, plus 10 per second.
    load(
      "Finagle 20 % + 10/s: load at most 1.2 and 1,000 retries",
      { ...RATIO, ratio: 0.2, minPerSecond: 10 },
      (calls) => 1.2 + (10 * DURATION_S) / calls,
    ),
    // While every call fails the bucket gets no refill: 500 / 14 and 500 / 5.
    retries("AWS SDK, 500 tokens of 14", 35, { kind: "TOKENS" }),
    retries("AWS SDK before 2.1, 500 tokens of 5", 100, { kind: "TOKENS", costPerRetry: 5 }),
    // Ten tokens, one less with each failure, retries only above five: so four retries.
    retries("gRPC A6, 10 tokens", 4, { kind: "GRPC" }),
  ];
}

/** 1000 calls per second of which the server accepts 250, after one healthy window. */
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
    "SRE book ch. 21; Finagle RetryBudget; gRFC A6; AWS SDK retry behavior (Envoy counts retries in progress, which this lab does not model)",
  lesson:
    "A ratio limits the load to 1 + ratio in the long run. A bucket without a refill over time allows almost no retries in a total outage.",
  run: (seed) => [...budgetRows(seed), ...throttleRows(seed)],
};

// Throttle cold start lab: adaptive throttling without any history. Parallel calls to a healthy
// server are refused if a request counts when it is sent (SRE book), but not if it counts when its
// result is known (Envoy and core).

const K = 2;
const THROTTLED = { policy: { maxAttempts: 1 }, rate: { throttle: { k: K } } } as const;

const CALL_MS = 50;

/** The second calls come two minutes (the throttle's window) after the last result. */
const SECOND_AT = CALL_MS + 120_000;

/**
 * How many of `count` calls are refused at each of two instants. Every call that is sent succeeds.
 */
function refusedByCore(count: number, seed: number | string): readonly [number, number] {
  const arrivals = Array.from({ length: 2 * count }, (_, call) => (call < count ? 0 : SECOND_AT));
  const { ends } = simulateCalls({
    destination: THROTTLED,
    patience: "fail-fast",
    startAt: 0,
    arrivals,
    outcomeOf: () => ({ outcome: SUCCESS, durationMs: CALL_MS }),
    randomOf: () => drawsOf(seed, "jitter"),
    guardRandom: drawsOf(seed, "guards"),
  });
  const refused = ends.filter(({ reason }) => reason === "overload");
  const first = refused.filter(({ call }) => call < count).length;
  return [first, refused.length - first];
}

/** Counts as in the SRE book: a request when it is made, an accept when the response arrives. */
function refusedByBook(count: number, draws: Draws): number {
  let refused = 0;
  // No parallel call gets its response before the last one is made, so there are no accepts.
  for (let requests = 0; requests < count; requests++) {
    if (draws.next() < requests / (requests + 1)) refused++;
  }
  return refused;
}

/** The sum of the probabilities, requests / (requests + 1), that each call is refused. */
function expectedByBook(count: number): number {
  let sum = 0;
  for (let requests = 0; requests < count; requests++) sum += requests / (requests + 1);
  return sum;
}

function coldRows(count: number, seed: number | string, effort: number): readonly LabRow[] {
  const [cold, quiet] = refusedByCore(count, seed);
  const draws = drawsOf(seed, `book ${count}`);
  const byBook = sample(runs(2000, effort, 200), () => refusedByBook(count, draws));
  const what = `${count} parallel calls to a healthy server`;
  return [
    within(`${what}, cold start, counted with their results: refused`, 0, cold, 0),
    within(`${what}, after 2 min of silence, the same: refused`, 0, quiet, 0),
    sampled(
      `${what}, cold start, counted when sent: refused`,
      expectedByBook(count),
      0.01,
      byBook,
      { exact: true },
    ),
  ];
}

const HORIZON_MS = 400_000;

/** 1,000 calls per second of which the server accepts 250, long after the throttle has settled. */
function overloaded(): CallsDocument {
  return {
    clients: { kind: "OPEN", ratePerSecond: 1000 },
    horizonMs: HORIZON_MS,
    guards: "SHARED",
    tiers: [
      { destination: THROTTLED, server: { capacityPerSecond: 250, queueMs: 40, latency: 20 } },
    ],
  };
}

function steadyRow(seed: number | string): LabRow {
  const { series } = figuresOf(runCalls(resolveCalls(overloaded()), seed));
  const from = Math.floor(HORIZON_MS / 2 / series.binMs);
  const sum = (counts: Float64Array) =>
    counts.slice(from, -1).reduce((total, count) => total + count, 0);
  const sentPerAccept = sum(series.attempts) / sum(series.succeeded);
  return near(
    "steady overload, K = 2: sent for each call that is accepted",
    K,
    sentPerAccept,
    0.02,
  );
}

export const throttleColdStartLab: Lab = {
  id: "throttle-cold-start",
  title: "Adaptive throttling at a cold start",
  source:
    'Google SRE book ch. 21 "Handling Overload" (sre.google/sre-book/handling-overload); Envoy, admission control filter, which counts a request when its result is known',
  lesson:
    "A throttle that counts requests before their results refuses parallel calls to a healthy server. If it counts them with their results, it refuses none, and it still throttles overload.",
  run: (seed, effort) => [
    ...coldRows(10, seed, effort),
    ...coldRows(100, seed, effort),
    steadyRow(seed),
  ],
};
