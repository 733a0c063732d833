/**
 * Duration: parses durations as people and other systems write them ("0.1s", "100ms", "2h"), once, at
 * the edge. Inside Redrive a duration is a whole number of milliseconds.
 */

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
