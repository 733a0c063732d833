/**
 * Format: durations, numbers and shares as text with units, for every message and report, and durations
 * read from text. A share is never rounded to "0 %" or "100 %" unless it is exactly that: one lost call in a
 * million counts.
 */

const UNITS = [
  { unit: "years", ms: 31_536_000_000 },
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
] as const;

/** A duration: 250 ms, 90 s, 1.5 s, 8 h. The unit is the largest that gives 2 or more, or a whole number. */
export function formatDuration(ms: number): string {
  if (ms === 31_536_000_000) return "1 year";
  const fit = UNITS.find((one) => ms >= 2 * one.ms || (ms >= one.ms && isWhole(ms, one)));
  return fit === undefined ? `${formatNumber(ms)} ms` : `${formatNumber(ms / fit.ms)} ${fit.unit}`;
}

type Unit = (typeof UNITS)[number];

/** Seconds have decimals. "24 h" is clearer than "1 d". */
function isWhole(ms: number, { unit, ms: unitMs }: Unit): boolean {
  return unit === "s" || (unit !== "d" && ms % unitMs === 0);
}

/** An integer with a comma between thousands. */
export function formatInteger(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/gu, ",");
}

/** At most two decimals; from 1,000 on an integer with commas. */
export function formatNumber(value: number): string {
  if (Math.abs(value) >= 1000) return formatInteger(value);
  return String(Math.round(value * 100) / 100);
}

/** Four significant digits, three below 1: 2,419, 812.9, 0.0651. */
export function formatSignificant(value: number): string {
  if (Math.abs(value) >= 1000) return formatInteger(value);
  return String(Number(value.toPrecision(Math.abs(value) >= 1 ? 4 : 3)));
}

/** A share of 1 as a percentage with at most one decimal. */
export function formatPercent(share: number): string {
  const tenths = Math.round(share * 1000) / 10;
  if (tenths === 100 && share < 1) return "> 99.9 %";
  if (tenths === 0 && share > 0) return "< 0.1 %";
  return `${tenths} %`;
}

/** A count with its noun: "1 attempt", "2 attempts". */
export function formatCount(count: number, noun: string): string {
  return `${formatInteger(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// Durations as people and other systems write them ("0.1s", "100ms", "2h") are parsed once, at the edge.
// Inside Redrive a duration is a whole number of milliseconds.

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Digits with at most one point among them, directly followed by the unit; no sign, blank or exponent. */
const DURATION = /^(?=\.?\d)(\d{0,15})(?:\.(\d{1,9}))?(ms|s|m|h|d)$/;

/**
 * The duration in whole ms, or undefined if the text is not a duration, is finer than a millisecond,
 * or is too long for an exact number.
 */
export function parseDuration(text: string): number | undefined {
  const [, whole = "", fraction = "", unit = ""] = DURATION.exec(text) ?? [];
  const unitMs = UNIT_MS[unit];
  if (unitMs === undefined) return undefined;
  const partMs = fractionMs(fraction.replace(/0+$/, ""), unitMs);
  const durationMs = Number(whole) * unitMs + partMs;
  return Number.isSafeInteger(durationMs) ? durationMs : undefined;
}

/** Multiplies first and divides last. All values are integers, so 0.1 s is exactly 100 ms. */
function fractionMs(digits: string, unitMs: number): number {
  return (Number(digits) * unitMs) / Number(`1${"0".repeat(digits.length)}`);
}

/** A duration as protocol buffers write it in JSON: seconds, at most three decimals, then `s`. */
export function formatSeconds(durationMs: number): string {
  const decimals = String(durationMs % 1000)
    .padStart(3, "0")
    .replace(/0+$/, "");
  const seconds = String(Math.floor(durationMs / 1000));
  return decimals === "" ? `${seconds}s` : `${seconds}.${decimals}s`;
}
