/** Figures: spans and numbers as people read them, for every sentence that Redrive says. */

const UNITS = [
  { unit: "years", ms: 31_536_000_000 },
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
] as const;

/** A span as people say it: 250 ms, 90 s, 1.5 s, 8 h; a larger unit from two of it on, or if it is whole. */
export function formatDuration(ms: number): string {
  if (ms === 31_536_000_000) return "1 year";
  const fit = UNITS.find((one) => ms >= 2 * one.ms || (ms >= one.ms && isWhole(ms, one)));
  return fit === undefined ? `${formatNumber(ms)} ms` : `${formatNumber(ms / fit.ms)} ${fit.unit}`;
}

type Unit = (typeof UNITS)[number];

/** Seconds are told with decimals; 24 h say more than 1 d. */
function isWhole(ms: number, { unit, ms: unitMs }: Unit): boolean {
  return unit === "s" || (unit !== "d" && ms % unitMs === 0);
}

/** A whole number with its thousands apart. */
export function formatInteger(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/gu, ",");
}

/** Two digits after the point at most; thousands apart from 1,000 on. */
export function formatNumber(value: number): string {
  if (Math.abs(value) >= 1000) return formatInteger(value);
  return String(Math.round(value * 100) / 100);
}
