/**
 * Breaker lab: where breakers help (they drain a queue that budgets only keep from growing) and where
 * they hurt (one shard of three is down). The published breakers count calls; core's counts a span of
 * time, and stands beside.
 */
import type { DestinationDocument } from "@redrive/core";
import { drawsOf } from "../chance/draws.ts";
import { type Figures, figuresOf } from "../measure/report.ts";
import { type CallsDocument, resolveCalls } from "../scenario.ts";
import type { OwnGuard } from "../world/caller.ts";
import { runCalls } from "../world/calls.ts";
import { between, type Lab, type LabRow, same, within } from "./lab.ts";
import { queueModel } from "./metastable.ts";
import { bucketGuard, countBreaker } from "./own-guards.ts";

const QUEUE = {
  capacity: 300,
  rate: 280,
  retries: 1,
  horizonMs: 260_000,
  clients: 20,
  phase: { kind: "CAPACITY", factor: 0, atMs: 30_000, forMs: 10_000 },
} as const;

function queueRun(
  seed: number | string,
  retries: number,
  own?: () => OwnGuard,
  destination?: DestinationDocument,
): Figures {
  const document = queueModel({ ...QUEUE, retries, ...(destination && { destination }) });
  return figuresOf(runCalls(resolveCalls(document), seed, { ownGuard: own }));
}

function last20(seed: number | string): () => OwnGuard {
  const draws = drawsOf(seed, "breakers");
  return () =>
    countBreaker({
      failureRate: 0.5,
      window: 20,
      minCalls: 10,
      openMs: 5000,
      perShard: false,
      draw: draws.next,
    });
}

const recoveryS = ({ recoveryMs }: Figures) => (recoveryMs ?? 1e9) / 1000;

function queueRows(seed: number | string): readonly LabRow[] {
  const breaker = queueRun(seed, 1, last20(seed));
  const core = queueRun(seed, 1, undefined, {
    breaker: { windowMs: 1500, minCalls: 10, maxOpenMs: 6000 },
  });
  const budget = queueRun(seed, 1, () => bucketGuard({ ratio: 0.1, size: 10, on: "success" }));
  const none = queueRun(seed, 0);
  const plain = queueRun(seed, 1);
  return [
    {
      ...between("breaker per client: s to recover", 4, recoveryS(breaker), 2, 7),
      core: recoveryS(core),
    },
    {
      ...within("breaker: share served in 260 s", 0.95, breaker.goodput, 0.03),
      core: core.goodput,
    },
    between("budget alone: s to recover", 135, recoveryS(budget), 100, 175),
    within("budget alone: share served", 0.43, budget.goodput, 0.08),
    between("no retry: s to recover", 135, recoveryS(none), 100, 175),
    within("no retry: share served", 0.45, none.goodput, 0.08),
    same("plain retry", "never", plain.recoveryMs === null ? "never" : "recovers"),
  ];
}

/** One of three shards is down, no retries, 16 calls a second per client (the result depends on it). */
function shardScenario(destination: DestinationDocument, breakerPerShard: boolean): CallsDocument {
  return {
    clients: { kind: "OPEN", count: 20, ratePerSecond: 320 },
    horizonMs: 300_000,
    tiers: [
      {
        destination: { policy: { maxAttempts: 1 }, ...destination },
        breakerPerShard,
        server: { shards: 3, hop: { kind: "EXPONENTIAL", meanMs: 10 } },
      },
    ],
    timeline: [{ kind: "OUTAGE", atMs: 0, forMs: 300_000, shard: 0 }],
  };
}

function shardRows(seed: number | string): readonly LabRow[] {
  const draws = drawsOf(seed, "shard breakers");
  const bare = resolveCalls(shardScenario({}, false));
  const counting = (failureRate: number, window: number, perShard: boolean) =>
    figuresOf(
      runCalls(bare, seed, {
        ownGuard: () =>
          countBreaker({
            failureRate,
            window,
            minCalls: window,
            openMs: 5000,
            perShard,
            draw: draws.next,
          }),
      }),
    );
  const core = (minCalls: number, windowMs: number, perShard: boolean) =>
    figuresOf(
      runCalls(
        resolveCalls(shardScenario({ breaker: { minCalls, windowMs, maxOpenMs: 6000 } }, perShard)),
        seed,
      ),
    );
  const keyed = counting(0.5, 20, true);
  const none = figuresOf(runCalls(bare, seed));
  return [
    within("no breaker: share served", 0.668, none.goodput, 0.03),
    {
      ...within(
        "breaker 50 % of 20 calls: share served",
        0.28,
        counting(0.5, 20, false).goodput,
        0.03,
      ),
      core: core(20, 2000, false).goodput,
    },
    within("breaker 30 % of 20 calls: share served", 0.087, counting(0.3, 20, false).goodput, 0.03),
    {
      ...within(
        "breaker 50 % of 100 calls: share served",
        0.665,
        counting(0.5, 100, false).goodput,
        0.03,
      ),
      core: core(100, 8000, false).goodput,
    },
    {
      ...within("breaker per shard: share served", 0.668, keyed.goodput, 0.03),
      core: core(20, 2000, true).goodput,
    },
    within("breaker per shard: calls saved", 0.32, 1 - keyed.attempts / none.attempts, 0.03),
  ];
}

export const breakerLab: Lab = {
  id: "breaker",
  title: "Where a breaker helps: it drains the queue",
  source: "Bronson 2021's queue with breakers; own reference, two independent implementations",
  lesson: "Budgets prevent collapse, breakers drain the queue.",
  run: (seed) => queueRows(seed),
};

export const shardsLab: Lab = {
  id: "shards",
  title: "Where a breaker hurts: one shard of three is down",
  source: "Brooker, Will circuit breakers solve my problems?, Feb 2022",
  lesson:
    "Key the breaker by shard, and look at 100 calls or more; the result depends on the call rate, here 16/s per client.",
  run: (seed) => shardRows(seed),
};
