/**
 * Verdict: one sentence on a run, with the numbers that decide it, such as "never recovers: 700 x 4
 * > 1,000". It uses Bronson's condition (2021): a server whose clients retry recovers if and only
 * if offered load times attempts per call stays below its capacity.
 */
import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import type { CallsScenario } from "../scenario/scenario.ts";
import { type Figures, type Report, ratio, sumOf } from "./report.ts";

export function verdictOf(scenario: CallsScenario, figures: Figures): string {
  const { recoveryMs } = figures;
  if (recoveryMs === undefined) {
    return `${formatNumber(figures.amplification)} attempts per call; ${lossesOf(figures)}`;
  }
  const { timeline, clients, horizonMs } = scenario;
  const endMs = Math.max(...timeline.map(({ atMs, forMs, warmMs = 0 }) => atMs + forMs + warmMs));
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
