/**
 * Report: what a run comes to, in numbers with units, and a verdict in one computed sentence.
 */

import { quantileOf } from "./histogram.ts";
import { ATTEMPTS, FAILED, OFFERED, QUEUE_MS, SUCCEEDED, type Tally } from "./tally.ts";
import type { WorldRun } from "./world-run.ts";

/** A count per window, and when that window began. */
export interface PeakReport {
  readonly count: number;
  readonly windowMs: number;
  readonly atMs: number;
}

/** Counts over time, one entry a bin of `binMs`; at most 4096 bins. */
export interface Series {
  readonly binMs: number;
  /** First attempts: what clients want done. */
  readonly offered: Float64Array;
  /** Attempts that reach the last tier. */
  readonly attempts: Float64Array;
  readonly succeeded: Float64Array;
  readonly failed: Float64Array;
  /** Longest wait in the queue seen in the bin; ms. */
  readonly queueMs: Float64Array;
}

export interface Report {
  readonly scenario: string;
  readonly seed: number | string;
  readonly engine: WorldRun["engine"];
  /** What clients wanted done. */
  readonly calls: number;
  /** Attempts and hedges sent to the last tier. */
  readonly attempts: number;
  /** Attempts per call. */
  readonly amplification: number;
  readonly peak: PeakReport;
  /** The peak once the trouble is over: what the recovering server has to take. */
  readonly peakAfter: PeakReport;
  readonly succeeded: number;
  readonly lost: number;
  /** Neither done nor given up when the run ended. */
  readonly unfinished: number;
  /** Share of calls that succeeded. */
  readonly goodput: number;
  /** Lost calls by reason. */
  readonly reasons: Readonly<Record<string, number>>;
  /** From the end of the trouble until clients are served again for good; null: never. Absent without trouble. */
  readonly recoveryMs?: number | null;
  /** When the last call ended. */
  readonly doneAtMs: number;
  /** Time to success as the client sees it, waits included. */
  readonly latencyMs: {
    readonly mean: number;
    readonly p50: number;
    readonly p99: number;
    readonly max: number;
  };
  /** Sum of all waits before a call's attempts; mean over calls. */
  readonly meanWaitMs: number;
  /** Jain's index between clients, 0 to 1: see docs/simulator.md. */
  readonly fairness: number;
  /** Chance that the waits of the first tier's policy outlast the longest outage; absent without one. */
  readonly coverage?: number;
  /** Queue worlds: runs that did work which was already done, as share of all runs. */
  readonly duplicateShare?: number;
  /** Queue worlds: share of messages that ended as dead letters. */
  readonly deadLetterShare?: number;
  readonly verdict: string;
  readonly series: Series;
}

/** Everything but the verdict and coverage, which need the scenario. */
export type Figures = Omit<Report, "scenario" | "seed" | "verdict" | "coverage">;

export function figuresOf(run: WorldRun): Figures {
  const { tally } = run;
  const recoveryMs = recoveryOf(run);
  return {
    engine: run.engine,
    calls: tally.calls,
    attempts: tally.attempts,
    amplification: ratio(tally.attempts, tally.calls),
    peak: { ...tally.peak, windowMs: tally.windowMs },
    peakAfter: { ...tally.peakAfter, windowMs: tally.windowMs },
    succeeded: tally.succeeded,
    lost: tally.lost,
    unfinished: tally.calls - tally.succeeded - tally.lost,
    goodput: ratio(tally.succeeded, tally.calls),
    reasons: Object.fromEntries(tally.reasons),
    ...(recoveryMs === undefined ? {} : { recoveryMs }),
    doneAtMs: tally.doneAtMs,
    latencyMs: {
      mean: ratio(tally.latency.sumMs, tally.latency.total),
      p50: quantileOf(tally.latency, 0.5),
      p99: quantileOf(tally.latency, 0.99),
      max: tally.latency.maxMs,
    },
    meanWaitMs: ratio(tally.waitedMs, tally.calls),
    fairness: run.fairness,
    ...(run.duplicates === undefined
      ? {}
      : { duplicateShare: ratio(run.duplicates, tally.attempts) }),
    ...(run.deadLetters === undefined
      ? {}
      : { deadLetterShare: ratio(run.deadLetters, tally.calls) }),
    series: seriesOf(tally),
  };
}

export function ratio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

function seriesOf(tally: Tally): Series {
  const lane = (index: number) => (tally.lanes[index] as Float64Array).slice(0, tally.bins);
  return {
    binMs: tally.binMs,
    offered: lane(OFFERED),
    attempts: lane(ATTEMPTS),
    succeeded: lane(SUCCEEDED),
    failed: lane(FAILED),
    queueMs: lane(QUEUE_MS),
  };
}

/** Goodput below this share of what is offered counts as not recovered. */
const SERVED_SHARE = 0.9;

/** Goodput is smoothed over this: chance alone must not look like a relapse. */
const SMOOTH_MS = 3000;

/** Undefined without trouble, null if it never ends. */
function recoveryOf(run: WorldRun): number | null | undefined {
  if (run.triggerEndMs === 0) return undefined;
  const { tally } = run;
  if (run.engine === "fleet") {
    return tally.succeeded === 0 ? null : Math.max(0, tally.doneAtMs - run.triggerEndMs);
  }
  const badUntilMs = lastBadMs(tally, run.triggerStartMs);
  if (badUntilMs === null) return null;
  return Math.max(0, badUntilMs - run.triggerEndMs);
}

/**
 * When the last stretch ends in which too little was served; null if the run ends before it. Of the
 * last window below the share, that share's complement was still bad, if goodput returns at once.
 */
function lastBadMs(tally: Tally, fromMs: number): number | null {
  const width = Math.max(1, Math.floor(SMOOTH_MS / tally.binMs));
  const offered = tally.lanes[OFFERED] as Float64Array;
  const served = tally.lanes[SUCCEEDED] as Float64Array;
  const first = Math.floor(fromMs / tally.binMs);
  // The last bin is cut short by the end of the run.
  const end = tally.bins - 1;
  for (let bin = end - width; bin >= first; bin--) {
    const wanted = sumOf(offered, bin, bin + width);
    if (wanted > 0 && sumOf(served, bin, bin + width) < SERVED_SHARE * wanted) {
      return bin >= end - width - 1 ? null : (bin + 1 + width * (1 - SERVED_SHARE)) * tally.binMs;
    }
  }
  return 0;
}

/** Of the bins from `from` to before `end`. */
export function sumOf(counts: Float64Array, from = 0, end?: number): number {
  return counts.subarray(from, end).reduce((sum, count) => sum + count, 0);
}
