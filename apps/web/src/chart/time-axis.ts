/** Time axis: ticks at round seconds, minutes, hours or days, depending on the longest duration. */
import { formatNumber } from "@redrive/core";
import { linearTicks, niceMax } from "./scale.ts";

const UNITS = [
  { unit: "d", ms: 86_400_000, fromMs: 4 * 86_400_000 },
  { unit: "h", ms: 3_600_000, fromMs: 4 * 3_600_000 },
  { unit: "min", ms: 60_000, fromMs: 4 * 60_000 },
  { unit: "s", ms: 1000, fromMs: 0 },
] as const;

export interface TimeAxis {
  /** The end of the axis: a round value, at least the longest duration. */
  readonly endMs: number;
  ticks(maxTicks: number): readonly number[];
  format(ms: number): string;
}

/** An axis from 0 to at least `maxMs`. */
export function timeAxis(maxMs: number): TimeAxis {
  const { unit, ms: unitMs } = UNITS.find(({ fromMs }) => maxMs >= fromMs) ?? UNITS[3];
  const endMs = niceMax(maxMs / unitMs) * unitMs;
  return {
    endMs,
    ticks: (maxTicks) => linearTicks([0, endMs / unitMs], maxTicks).map((value) => value * unitMs),
    format: (ms) => `${formatUnits(ms / unitMs)} ${unit}`,
  };
}

/** Keeps three significant digits below 1, for example 0.005. */
function formatUnits(value: number): string {
  return value < 1 ? String(Number(value.toPrecision(3))) : formatNumber(value);
}
