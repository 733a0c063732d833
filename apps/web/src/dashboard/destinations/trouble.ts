/** Trouble: what keeps a destination from getting its attempts, in a sentence, worst first. */
import { formatDuration, formatInteger } from "@redrive/core";
import type { DestinationView } from "../service/client.ts";

export interface Trouble {
  /** Higher is worse. 0: none. */
  readonly severity: number;
  /** What holds attempts now, and what has failed. */
  readonly sentences: readonly string[];
}

type Rule = (destination: DestinationView, now: number) => string | undefined;

/** Rounded up to a second, so that it never says "0 s" while something is still shut. */
function inTime(untilAt: number, now: number): string {
  return formatDuration(Math.ceil((untilAt - now) / 1000) * 1000);
}

/** Worst first. */
const RULES: readonly Rule[] = [
  ({ unreadable }) =>
    unreadable === null
      ? undefined
      : `This version cannot read its document (${unreadable}), so its tasks are held.`,
  ({ breakerState, openUntil }, now) => {
    if (breakerState === "HALF_OPEN") return "Its circuit is half open: probes decide.";
    if (breakerState !== "OPEN") return undefined;
    return openUntil > now
      ? `Its circuit is open; the next probe is in ${inTime(openUntil, now)}.`
      : "Its circuit is open; the next task probes it.";
  },
  ({ gateUntil }, now) =>
    gateUntil > now
      ? `It asked for a pause (Retry-After): no attempt for ${inTime(gateUntil, now)}.`
      : undefined,
  ({ pausedAt }, now) =>
    pausedAt === null ? undefined : `Somebody paused it ${inTime(now, pausedAt)} ago.`,
  ({ retryBudget }) =>
    retryBudget === "empty" ? "Its retry budget is empty: retries wait." : undefined,
  ({ disabledTargets }) =>
    disabledTargets.length === 0
      ? undefined
      : `${formatInteger(disabledTargets.length)} of its targets responded 410 Gone and are disabled.`,
  ({ concurrency, backlog }) =>
    concurrency !== null && concurrency.inFlight >= concurrency.limit && backlog > concurrency.limit
      ? `All ${formatInteger(concurrency.limit)} slots are in use.`
      : undefined,
  ({ rateUntil }, now) =>
    rateUntil > now ? "Its rate limit is reached: attempts wait for tokens." : undefined,
  ({ nextDueAt }, now) =>
    nextDueAt !== null && now - nextDueAt > LATE_MS
      ? `Its first waiting task is ${inTime(now, nextDueAt)} overdue.`
      : undefined,
];

/** Attempts may start this late without being worth a sentence. */
const LATE_MS = 5000;

export function troubleOf(destination: DestinationView, now: number): Trouble {
  const found = RULES.map((rule) => rule(destination, now));
  const worst = found.findIndex((sentence) => sentence !== undefined);
  return {
    severity: worst < 0 ? 0 : RULES.length - worst,
    sentences: found.filter((sentence) => sentence !== undefined),
  };
}

/** Destinations in trouble first, then those with the largest backlog. */
export function byTrouble(
  destinations: readonly DestinationView[],
  now: number,
): readonly DestinationView[] {
  const severity = new Map(destinations.map((one) => [one, troubleOf(one, now).severity]));
  return destinations.toSorted(
    (one, other) =>
      (severity.get(other) ?? 0) - (severity.get(one) ?? 0) ||
      other.backlog - one.backlog ||
      one.name.localeCompare(other.name),
  );
}

/** Tasks by status over all destinations. */
export function totalTasks(
  destinations: readonly DestinationView[],
): Readonly<Record<string, number>> {
  const totals: Record<string, number> = {};
  for (const { tasks } of destinations) {
    for (const [status, count] of Object.entries(tasks)) {
      totals[status] = (totals[status] ?? 0) + count;
    }
  }
  return totals;
}
