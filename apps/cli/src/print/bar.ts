/**
 * Bar: a length drawn in eighths of a character, so that eight times as many lengths can be told
 * apart as there are columns.
 */

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;
const FULL = "█";

/** `value` of `top` in `width` characters; anything above 0 shows. Never longer than `width`. */
export function bar(value: number, top: number, width: number): string {
  const eighths = eighthsOf(value, top, width);
  return FULL.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? "");
}

/** A bar up to `value`, then dots up to `high`: what is, and what could have been. */
export function rangeBar(
  value: number,
  high: number,
  top: number,
  width: number,
): { readonly solid: string; readonly dots: string; readonly rest: string } {
  const solid = bar(value, top, width);
  const end = Math.ceil(eighthsOf(high, top, width) / 8);
  const dots = "·".repeat(Math.max(0, end - solid.length));
  return { solid, dots, rest: " ".repeat(Math.max(0, width - solid.length - dots.length)) };
}

function eighthsOf(value: number, top: number, width: number): number {
  if (!(value > 0) || !(top > 0)) return 0;
  const share = Math.min(1, value / top);
  return Math.max(1, Math.round(share * width * 8));
}
