/** Report: the measures of a run, with units, and a verdict in one computed sentence. */

import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import type { CallsScenario } from "../scenario/scenario.ts";
import {
  ATTEMPTS,
  FAILED,
  OFFERED,
  QUEUE_MS,
  quantileOf,
  SUCCEEDED,
  type Tally,
  type WorldRun,
} from "./tally.ts";

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

function ratio(part: number, total: number): number {
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

// Verdict: one sentence on a run, with the numbers that decide it, such as "never recovers: 700 x 4
// > 1,000". It uses Bronson's condition (2021): a server whose clients retry recovers if and only
// if offered load times attempts per call stays below its capacity.

export function verdictOf(scenario: CallsScenario, figures: Figures): string {
  const { recoveryMs } = figures;
  if (recoveryMs === undefined) {
    return `${formatNumber(figures.amplification)} attempts per call; ${lossesOf(figures)}`;
  }
  const { timeline, clients, horizonMs } = scenario;
  const endMs = Math.max(...timeline.map(({ atMs, forMs, warmMs = 0 }) => atMs + forMs + warmMs));
  const isTotal = figures.calls > 0 && figures.lost === figures.calls;
  if (isTotal && !isWaitTooShort(figures)) return `no call succeeds: ${mainReasonOf(figures)}`;
  if (figures.engine === "fleet") return fleetVerdict(endMs, figures);
  const condition = loadComparison(scenario, figures);
  // "Never" needs a long observation, unless Bronson's condition explains it. Clients with a fixed
  // number of jobs run until all are done.
  const isShort =
    horizonMs - endMs < (recoveryMs === null && condition === "" ? MIN_OBSERVED_MS : 1);
  if (isShort && !("jobs" in clients)) return `${TOO_SHORT}; ${lossesOf(figures)}`;
  const because = condition === "" ? "" : `: ${condition}`;
  if (recoveryMs === null) return `never recovers${because}`;
  const after = recoveryMs === 0 ? "at once" : `${formatTenths(recoveryMs)} later`;
  return `recovers ${after}${because}; ${lossesOf(figures)}`;
}

/** The reason for which most calls were lost. */
function mainReasonOf({ reasons }: Figures): string {
  const [first] = Object.entries(reasons)
    .filter(([reason]) => reason !== "succeeded")
    .toSorted(([, one], [, other]) => other - one);
  return first?.[0] ?? "none of them ends";
}

/** The attempts or the time of a fleet's calls end before the outage does. */
function isWaitTooShort(figures: Figures): boolean {
  return figures.engine === "fleet" && /^(?:attempts|budget)$/u.test(mainReasonOf(figures));
}

const TOO_SHORT = "the run is too short for a verdict";

/** True if the run ended too soon after its faults. Its recovery then means nothing. */
export function isUndecided({ verdict }: Pick<Report, "verdict">): boolean {
  return verdict.startsWith(TOO_SHORT);
}

/** Several times the period over which goodput is averaged. */
const MIN_OBSERVED_MS = 10_000;

/** Calls that are in progress when the run ends are not lost. There are always a few. */
function lossesOf({ calls, lost, unfinished }: Figures): string {
  const open = ratio(unfinished, calls);
  const rest = open > 0.01 ? `, ${formatPercent(open)} unfinished` : "";
  return `${formatPercent(ratio(lost, calls))} of the calls lost${rest}`;
}

function fleetVerdict(endMs: number, figures: Figures): string {
  const { lost, calls, peakAfter, recoveryMs } = figures;
  if (lost === calls) return `no call succeeds: all attempts end within ${formatTenths(endMs)}`;
  const peak = `at most ${formatInteger(peakAfter.count)} arrive within ${formatDuration(peakAfter.windowMs)}`;
  const done = recoveryMs
    ? `done ${formatTenths(recoveryMs)} after the outage`
    : "done before it ends";
  const died = lost === 0 ? "all" : `${formatPercent(lost / calls)} gave up, the rest`;
  return `${died} ${done}; ${peak}`;
}

/**
 * "700 x 4 > 1,000": offered load, attempts per call, capacity. Empty if the clients are closed, or
 * if the run contradicts the condition, which then explains nothing.
 */
function loadComparison(scenario: CallsScenario, figures: Figures): string {
  const { clients, tiers } = scenario;
  const capacity = tiers.at(-1)?.server.capacityPerSecond;
  if (clients.kind !== "OPEN" || capacity === undefined) return "";
  const { ratePerSecond } = clients;
  const maxAttempts = tiers.reduce(
    (product, tier) => product * tier.destination.policy.maxAttempts,
    1,
  );
  const isLost = figures.recoveryMs === null;
  const late = lateAmplification(figures, maxAttempts);
  // The policy's maximum, or the mean of the run, if that is below capacity; else the amplification
  // at the end of the run.
  const harmless = [maxAttempts, figures.amplification].find(
    (each) => ratePerSecond * each < capacity,
  );
  const times = isLost ? late : (harmless ?? late);
  const isOver = ratePerSecond * times > capacity;
  if (isOver !== isLost) return "";
  return `${formatInteger(ratePerSecond)} x ${formatNumber(times)} ${isOver ? ">" : "<"} ${formatInteger(capacity)}`;
}

/**
 * Attempts per call in the last quarter of the run. A value close to the policy's maximum counts as
 * the maximum.
 */
function lateAmplification({ series }: Figures, maxAttempts: number): number {
  const from = Math.floor(series.offered.length * 0.75);
  const measured = ratio(sumOf(series.attempts, from), sumOf(series.offered, from));
  return measured > 0.9 * maxAttempts ? maxAttempts : measured;
}

/** A measured duration rounded to a tenth of a second; further digits are random. */
export function formatTenths(ms: number): string {
  return formatDuration(Math.floor(ms / 100 + 0.5) * 100);
}
