/** Time on an axis: ticks at round seconds, minutes, hours or days, whichever the longest calls for. */
import { formatNumber } from "@redrive/simulator/words";
import { linearTicks, niceMax } from "./scale.ts";

const UNITS = [
  { unit: "d", ms: 86_400_000, fromMs: 4 * 86_400_000 },
  { unit: "h", ms: 3_600_000, fromMs: 4 * 3_600_000 },
  { unit: "min", ms: 60_000, fromMs: 4 * 60_000 },
  { unit: "s", ms: 1000, fromMs: 0 },
] as const;

export interface TimeAxis {
  /** The end of the axis: round, and not below the longest. */
  readonly endMs: number;
  ticks(most: number): readonly number[];
  format(ms: number): string;
}

/** An axis from 0 that holds `longestMs`. */
export function timeAxis(longestMs: number): TimeAxis {
  const { unit, ms: unitMs } = UNITS.find(({ fromMs }) => longestMs >= fromMs) ?? UNITS[3];
  const endMs = niceMax(longestMs / unitMs) * unitMs;
  return {
    endMs,
    ticks: (most) => linearTicks([0, endMs / unitMs], most).map((value) => value * unitMs),
    format: (ms) => `${small(ms / unitMs)} ${unit}`,
  };
}

/** 0.005 stays that. */
function small(value: number): string {
  return value < 1 ? String(Number(value.toPrecision(3))) : formatNumber(value);
}
