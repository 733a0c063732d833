/** Columns: arrivals as one path, a column as high as the fullest window in it. */
import { peaksOver } from "@redrive/simulator/text";
import { round } from "../../chart/axis.tsx";

export interface Frame {
  readonly left: number;
  readonly right: number;
  readonly base: number;
  readonly height: number;
}

/** A column is this wide at least; narrower ones cannot be told apart. */
const COLUMN_PX = 2;

/** The outline of all columns, for the `d` of a path. */
export function columnsPath(
  arrivals: ArrayLike<number>,
  windowMs: number,
  endMs: number,
  top: number,
  frame: Frame,
): string {
  const room = frame.right - frame.left;
  const windows = Math.max(1, Math.ceil(endMs / windowMs));
  const columns = Math.max(1, Math.min(windows, Math.floor(room / COLUMN_PX)));
  const step = room / columns;
  const gap = step > 3 ? 0.5 : 0;
  let path = "";
  for (const [index, value] of peaksOver(arrivals, windowMs, endMs, columns).entries()) {
    if (value === 0) continue;
    const height = Math.max(0.75, Math.min(1, value / top) * frame.height);
    path += `M${round(frame.left + index * step)} ${frame.base}v${round(-height)}h${round(step - gap)}v${round(height)}z`;
  }
  return path;
}
