/**
 * Optimistic concurrency lab: Brooker's contention model of 2015. The published formula counts from n
 * = 1 (the first wait is up to 2b) and caps decorrelated jitter last. The rows also have core's
 * result with the same first ceiling.
 */
import { power } from "../random/numeric.ts";
import type { ContentionWait } from "../worlds/contention.ts";
import { runContention } from "../worlds/contention.ts";
import { type Lab, type LabRow, near, runs, same } from "./lab.ts";

const BASE_MS = 5;
const CAP_MS = 2000;

type Strategy = "none" | "exponential" | "equal" | "full" | "decorrelated";

function ceiling(attempt: number): number {
  return Math.min(CAP_MS, BASE_MS * power(2, attempt));
}

function waitOf(strategy: Strategy, clientCount: number): ContentionWait {
  const previous = new Float64Array(clientCount).fill(BASE_MS);
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
        previous[client] = Math.min(CAP_MS, BASE_MS + (top - BASE_MS) * draws.next());
        return previous[client] as number;
      };
  }
}

/** Mean writes and mean time of `count` runs with `clientCount` writers. */
export function measureStrategy(
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
  const initialDelayMs = strategy === "decorrelated" ? BASE_MS : 2 * BASE_MS;
  const policy = {
    initialDelayMs,
    maxDelayMs: CAP_MS,
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

function run(seed: number | string, effort: number): readonly LabRow[] {
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
  run,
};
