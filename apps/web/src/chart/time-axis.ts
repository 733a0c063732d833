/** Time axis: ticks at round durations, in the unit that fits the longest one, or on a logarithmic scale. */
import { formatDuration, formatNumber } from "@redrive/core";
import { linearTicks, niceMax } from "./scale.ts";

const UNITS = [
  { unit: "d", ms: 86_400_000, fromMs: 4 * 86_400_000 },
  { unit: "h", ms: 3_600_000, fromMs: 4 * 3_600_000 },
  { unit: "min", ms: 60_000, fromMs: 4 * 60_000 },
  { unit: "s", ms: 1000, fromMs: 1000 },
  { unit: "ms", ms: 1, fromMs: 0 },
] as const;

export interface TimeAxis {
  /** The end of the axis: a round value, at least the longest duration. */
  readonly endMs: number;
  ticks(maxTicks: number): readonly number[];
  format(ms: number): string;
}

/** An axis from 0 to at least `maxMs`. */
export function timeAxis(maxMs: number): TimeAxis {
  const { unit, ms: unitMs } = UNITS.find(({ fromMs }) => maxMs >= fromMs) ?? UNITS[4];
  const endMs = niceMax(maxMs / unitMs) * unitMs;
  return {
    endMs,
    ticks: (maxTicks) => linearTicks([0, endMs / unitMs], maxTicks).map((value) => value * unitMs),
    format: (ms) => `${formatUnits(ms / unitMs)} ${unit}`,
  };
}

/** About a factor of ten apart, at durations that have short names. */
const LOG_TICKS_MS = [
  1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 172_800_000, 1_728_000_000,
];

/** The ticks of a logarithmic axis that is linear from 0 to `fromMs`. */
export function logTimeTicks(fromMs: number, endMs: number): readonly number[] {
  return [0, ...LOG_TICKS_MS.filter((ms) => ms >= fromMs && ms <= endMs)];
}

/** Each tick of a logarithmic axis has its own unit. */
export function formatLogTick(ms: number): string {
  return ms === 0 ? "0" : formatDuration(ms);
}

/** Keeps three significant digits below 1, for example 0.005. */
function formatUnits(value: number): string {
  return value < 1 ? String(Number(value.toPrecision(3))) : formatNumber(value);
}
