/** Bar: a horizontal bar, drawn in eighths of a character for a finer resolution than one column. */

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;
const FULL = "█";

/** Draws `value` on a scale from 0 to `top`. Any value above 0 is visible. At most `width` characters. */
export function bar(value: number, top: number, width: number): string {
  const eighths = eighthsOf(value, top, width);
  return FULL.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? "");
}

/** Draws a bar up to `value`, then dots up to `high`, the largest value that was possible. */
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
