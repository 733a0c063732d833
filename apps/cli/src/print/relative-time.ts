/** Relative time: formats an instant as a duration before or after now, rounded for people. */
import { formatDuration } from "@redrive/core";

export function formatAgo(at: number, now: number): string {
  return now - at < 1000 ? "just now" : `${formatDuration(roundDuration(now - at))} ago`;
}

export function formatUntil(at: number, now: number): string {
  return formatDuration(roundDuration(at - now));
}

/** Longer durations are rounded to larger units. */
const STEPS = [
  { untilMs: 10_000, ms: 100 },
  { untilMs: 120_000, ms: 1000 },
  { untilMs: 7_200_000, ms: 60_000 },
  { untilMs: Number.POSITIVE_INFINITY, ms: 3_600_000 },
] as const;

function roundDuration(ms: number): number {
  const step = STEPS.find(({ untilMs }) => ms < untilMs)?.ms ?? 1;
  return Math.round(ms / step) * step;
}

const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Formats the local time of day, such as "14:03:59". */
export function formatTimeOfDay(at: number): string {
  return TIME.format(at);
}
