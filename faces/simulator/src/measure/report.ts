/** Report: the measures of a run, with units, and a verdict in one computed sentence. */

import { quantileOf } from "./histogram.ts";
import { ATTEMPTS, FAILED, OFFERED, QUEUE_MS, SUCCEEDED, type Tally } from "./tally.ts";
import type { WorldRun } from "./world-run.ts";

/** A count per window, and when that window began. */
export interface PeakReport {
  readonly count: number;
  readonly windowMs: number;
  readonly atMs: number;
}

/** Counts over time: one entry per bin of `binMs`; at most 4096 bins. */
export interface Series {
  readonly binMs: number;
  /** First attempts: the calls that clients make. */
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
  /** Calls that clients made. */
  readonly calls: number;
  /** Attempts and hedges sent to the last tier. */
  readonly attempts: number;
  /** Attempts per call. */
  readonly amplification: number;
  readonly peak: PeakReport;
  /** The peak after the last phase: the load on the recovering server. */
  readonly peakAfter: PeakReport;
  readonly succeeded: number;
  readonly lost: number;
  /** Calls that had not ended when the run ended. */
  readonly unfinished: number;
  /** Share of calls that succeeded. */
  readonly goodput: number;
  /** Lost calls by reason. */
  readonly reasons: Readonly<Record<string, number>>;
  /**
   * Time from the end of the last phase until clients are served again permanently. Null if that
   * never happens; absent without phases.
   */
  readonly recoveryMs?: number | null;
  /** When the last call ended. */
  readonly doneAtMs: number;
  /** Time to success as the client sees it, including waits. */
  readonly latencyMs: {
    readonly mean: number;
    readonly p50: number;
    readonly p99: number;
    readonly max: number;
  };
  /** Sum of all waits of a call, as a mean over the calls. */
  readonly meanWaitMs: number;
  /** Jain's fairness index of the clients, 0 to 1: see docs/simulator.md. */
  readonly fairness: number;
  /**
   * Probability that the waits of the first tier's policy outlast the longest outage; absent
   * without an outage.
   */
  readonly coverage?: number;
  /** Queue worlds: share of the runs that repeated finished work. */
  readonly duplicateShare?: number;
  /** Queue worlds: share of messages that ended as dead letters. */
  readonly deadLetterShare?: number;
  readonly verdict: string;
  readonly series: Series;
}

/** The measures that do not need the scenario: all but verdict and coverage. */
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

export function ratio(part: number, total: number): number {
  return total === 0 ? 0 : part / total;
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

/** Goodput is averaged over this time, so random variation does not look like a relapse. */
const SMOOTH_MS = 3000;

/** Undefined without phases, null if the run never recovers. */
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
 * When the last period with too little goodput ends; null if it lasts until the end of the run. If
 * goodput returns at once, a share of 1 - `SERVED_SHARE` of the last window below the limit was
 * still bad.
 */
function lastBadMs(tally: Tally, fromMs: number): number | null {
  const width = Math.max(1, Math.floor(SMOOTH_MS / tally.binMs));
  const offered = tally.lanes[OFFERED] as Float64Array;
  const served = tally.lanes[SUCCEEDED] as Float64Array;
  const first = Math.floor(fromMs / tally.binMs);
  // The end of the run cuts the last bin short.
  const end = tally.bins - 1;
  for (let bin = end - width; bin >= first; bin--) {
    const wanted = sumOf(offered, bin, bin + width);
    if (wanted > 0 && sumOf(served, bin, bin + width) < SERVED_SHARE * wanted) {
      return bin >= end - width - 1 ? null : (bin + 1 + width * (1 - SERVED_SHARE)) * tally.binMs;
    }
  }
  return 0;
}

/** The sum of the bins from `from` up to, but not including, `end`. */
export function sumOf(counts: Float64Array, from = 0, end?: number): number {
  return counts.subarray(from, end).reduce((sum, count) => sum + count, 0);
}
