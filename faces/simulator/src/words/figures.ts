/**
 * Figures: numbers as people read them, always with their unit. A share is never rounded to
 * "0 %" or "100 %" unless it is exactly that: one lost call in a million is not none.
 */
import { formatInteger } from "@redrive/core";

export { formatDuration, formatInteger, formatNumber } from "@redrive/core";

/** Four digits that count, three below 1: 2,419, 812.9, 0.0651. */
export function figure(value: number): string {
  if (Math.abs(value) >= 1000) return formatInteger(value);
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
  return `${formatInteger(count)} ${noun}${count === 1 ? "" : "s"}`;
}
