/**
 * Verdict: a run judged in one sentence, with the numbers that decide it, such as "never recovers:
 * 700 x 4 > 1,000". The law behind it is Bronson's (2021): a server whose clients retry recovers if
 * and only if offered load times attempts per call stays below its capacity.
 */
import type { CallsScenario } from "../scenario.ts";
import { percent, plain, span, whole } from "../words/figures.ts";
import type { Figures } from "./report.ts";

export function verdictOf(scenario: CallsScenario, figures: Figures): string {
  if (figures.recoveryMs === undefined) return quietVerdict(figures);
  if (figures.engine === "fleet") return fleetVerdict(scenario, figures);
  const law = lawOf(scenario, figures);
  const because = law === "" ? "" : `: ${law}`;
  if (figures.recoveryMs === null) return `never recovers${because}`;
  const lost = `${percent(1 - figures.goodput)} of the calls lost`;
  const after = figures.recoveryMs === 0 ? "at once" : `${rounded(figures.recoveryMs)} later`;
  return `recovers ${after}${because}; ${lost}`;
}

function quietVerdict(figures: Figures): string {
  const lost = percent(1 - figures.goodput);
  return `${plain(figures.amplification)} attempts per call; ${lost} of the calls lost`;
}

function fleetVerdict(scenario: CallsScenario, figures: Figures): string {
  const { lost, calls, peakAfter, doneAtMs } = figures;
  const outage = Math.max(...scenario.timeline.map((phase) => phase.atMs + phase.forMs));
  if (lost === calls) return `saves nobody: every wait is over before the ${rounded(outage)} are`;
  const peak = `at most ${whole(peakAfter.count)} arrive within ${span(peakAfter.windowMs)}`;
  const done = `done ${rounded(doneAtMs - outage)} after the outage`;
  const died = lost === 0 ? "all" : `${percent(lost / calls)} gave up, the rest`;
  return `${died} ${done}; ${peak}`;
}

/**
 * "700 x 4 > 1,000": offered load, attempts per call, capacity. Empty where the load is not open, or
 * where it recovered against the law, which is then no reason.
 */
function lawOf(scenario: CallsScenario, figures: Figures): string {
  const { clients, tiers } = scenario;
  const capacity = tiers.at(-1)?.server.capacityPerSecond;
  if (clients.kind !== "OPEN" || capacity === undefined) return "";
  const { ratePerSecond } = clients;
  const most = tiers.reduce((product, tier) => product * tier.destination.policy.maxAttempts, 1);
  const isLost = figures.recoveryMs === null;
  const late = lateAmplification(figures, most);
  // What the policy may do at worst, or did all along, if that is harmless; else what it did last.
  const harmless = [most, figures.amplification].find((each) => ratePerSecond * each < capacity);
  const times = isLost ? late : (harmless ?? late);
  const isOver = ratePerSecond * times > capacity;
  if (isOver !== isLost) return "";
  return `${whole(ratePerSecond)} x ${plain(times)} ${isOver ? ">" : "<"} ${whole(capacity)}`;
}

/** Attempts per call over the last quarter of the run; close to the policy's most counts as it. */
function lateAmplification({ series }: Figures, most: number): number {
  const from = Math.floor(series.offered.length * 0.75);
  let offered = 0;
  let attempts = 0;
  for (let bin = from; bin < series.offered.length; bin++) {
    offered += series.offered[bin] as number;
    attempts += series.attempts[bin] as number;
  }
  const measured = offered === 0 ? 0 : attempts / offered;
  return measured > 0.9 * most ? most : measured;
}

/** A measured span, to a tenth of a second: more digits than that are chance. */
export function rounded(ms: number): string {
  return span(Math.floor(ms / 100 + 0.5) * 100);
}
