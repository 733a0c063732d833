/** Format: durations and numbers as people read them, for all messages and reports. */

const UNITS = [
  { unit: "years", ms: 31_536_000_000 },
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
] as const;

/** A duration as people say it: 250 ms, 90 s, 1.5 s, 8 h. Uses a larger unit for at least two of it, or a whole one. */
export function formatDuration(ms: number): string {
  if (ms === 31_536_000_000) return "1 year";
  const fit = UNITS.find((one) => ms >= 2 * one.ms || (ms >= one.ms && isWhole(ms, one)));
  return fit === undefined ? `${formatNumber(ms)} ms` : `${formatNumber(ms / fit.ms)} ${fit.unit}`;
}

type Unit = (typeof UNITS)[number];

/** Seconds may have decimals; 24 h is clearer than 1 d. */
function isWhole(ms: number, { unit, ms: unitMs }: Unit): boolean {
  return unit === "s" || (unit !== "d" && ms % unitMs === 0);
}

/** An integer with thousands separators. */
export function formatInteger(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/gu, ",");
}

/** At most two decimals; thousands separators from 1,000 on. */
export function formatNumber(value: number): string {
  if (Math.abs(value) >= 1000) return formatInteger(value);
  return String(Math.round(value * 100) / 100);
}
