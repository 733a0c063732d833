/**
 * Cold throttle lab: adaptive throttling when nothing is known yet. When a request counts decides
 * whether parallel calls to a healthy server are refused: when it is sent (the SRE book), or when its
 * result is known (Envoy, and core).
 */
import { SUCCESS } from "@redrive/core";
import { figuresOf } from "../measure/report.ts";
import { type Draws, drawsOf } from "../random/draws.ts";
import { resolveCalls } from "../scenario/scenario.ts";
import type { CallsDocument } from "../scenario/scenario-document.ts";
import { simulateCalls } from "../simulate/simulate-calls.ts";
import { runCalls } from "../worlds/calls/calls.ts";
import { type Lab, type LabRow, near, runs, sample, sampled, within } from "./lab.ts";

const K = 2;
const THROTTLED = { policy: { maxAttempts: 1 }, rate: { throttle: { k: K } } } as const;

const CALL_MS = 50;

/** The second calls come two minutes, the throttle's window, after the last result. */
const SECOND_AT = CALL_MS + 120_000;

/** Refused of `count` calls at each of two instants; every call that is sent succeeds. */
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

/** The book's counting: a request counts when it is made, an accept when the answer is there. */
function refusedByBook(count: number, draws: Draws): number {
  let refused = 0;
  // None of the parallel calls is answered before the last is made, so there are no accepts.
  for (let requests = 0; requests < count; requests++) {
    if (draws.next() < requests / (requests + 1)) refused++;
  }
  return refused;
}

/** The sum of the chances (requests / (requests + 1)) that each call is refused. */
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

/** 1,000 calls a second of which the server accepts 250, long after the throttle has settled. */
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
    "A throttle that counts requests before their results refuses parallel calls to a healthy server; counted with their results, none is refused, and overload is throttled as before.",
  run: (seed, effort) => [
    ...coldRows(10, seed, effort),
    ...coldRows(100, seed, effort),
    steadyRow(seed),
  ],
};
