/** Round duration: a duration for people who look at a clock, without decimals that change every second. */
import { formatInteger } from "@redrive/core";

const UNITS = [
  { unit: "s", ms: 1000, below: 100 },
  { unit: "min", ms: 60_000, below: 100 },
  { unit: "h", ms: 3_600_000, below: 48 },
] as const;
const DAY_MS = 86_400_000;

/** 250 ms, 42 s, 7 min, 5 h, 3 d. A unit is used until it has a hundred, so that little is lost. */
export function roundDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  for (const { unit, ms: unitMs, below } of UNITS) {
    const count = Math.round(ms / unitMs);
    if (count < below) return `${count} ${unit}`;
  }
  return `${formatInteger(ms / DAY_MS)} d`;
}
