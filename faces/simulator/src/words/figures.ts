/**
 * Figures: numbers as people read them, always with their unit. A share is never rounded to
 * "0 %" or "100 %" unless it is exactly that: one lost call in a million is not none.
 */

const UNITS = [
  { unit: "years", ms: 31_536_000_000 },
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
] as const;

/** A span as people say it: 250 ms, 90 s, 1.5 s, 8 h; a larger unit from two of it on, or if it is whole. */
export function span(ms: number): string {
  if (ms === 31_536_000_000) return "1 year";
  const fit = UNITS.find((one) => ms >= 2 * one.ms || (ms >= one.ms && isWhole(ms, one)));
  return fit === undefined ? `${plain(ms)} ms` : `${plain(ms / fit.ms)} ${fit.unit}`;
}

type Unit = (typeof UNITS)[number];

/** Seconds are told with decimals; 24 h say more than 1 d. */
function isWhole(ms: number, { unit, ms: unitMs }: Unit): boolean {
  return unit === "s" || (unit !== "d" && ms % unitMs === 0);
}

/** A whole number with its thousands apart. */
export function whole(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/gu, ",");
}

/** Two digits after the point at most; thousands apart from 1,000 on. */
export function plain(value: number): string {
  if (Math.abs(value) >= 1000) return whole(value);
  return String(Math.round(value * 100) / 100);
}

/** Four digits that count, three below 1: 2,419, 812.9, 0.0651. */
export function figure(value: number): string {
  if (Math.abs(value) >= 1000) return whole(value);
  return String(Number(value.toPrecision(Math.abs(value) >= 1 ? 4 : 3)));
}

export function percent(share: number): string {
  const tenths = Math.round(share * 1000) / 10;
  if (tenths === 100 && share < 1) return "> 99.9 %";
  if (tenths === 0 && share > 0) return "< 0.1 %";
  return `${tenths} %`;
}

/** "1 attempt", "2 attempts". */
export function counted(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}
