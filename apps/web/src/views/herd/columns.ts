/** Columns: arrivals as one SVG path. Each column has the height of the fullest window in it. */
import { peaksOver } from "@redrive/simulator/text";
import { round } from "../../chart/axis.tsx";

export interface Frame {
  readonly left: number;
  readonly right: number;
  readonly base: number;
  readonly height: number;
}

/** Narrower columns are hard to distinguish. */
const MIN_COLUMN_PX = 2;

/** The outline of all columns, for the `d` of a path. */
export function columnsPath(
  arrivals: ArrayLike<number>,
  windowMs: number,
  endMs: number,
  top: number,
  frame: Frame,
): string {
  const width = frame.right - frame.left;
  const windows = Math.max(1, Math.ceil(endMs / windowMs));
  const columns = Math.max(1, Math.min(windows, Math.floor(width / MIN_COLUMN_PX)));
  const step = width / columns;
  const gap = step > 3 ? 0.5 : 0;
  let path = "";
  for (const [index, value] of peaksOver(arrivals, windowMs, endMs, columns).entries()) {
    if (value === 0) continue;
    const height = Math.max(0.75, Math.min(1, value / top) * frame.height);
    path += `M${round(frame.left + index * step)} ${frame.base}v${round(-height)}h${round(step - gap)}v${round(height)}z`;
  }
  return path;
}
