/**
 * Columns: counts over time as upright bars in eighths of a line, over an axis in time. Charts that
 * are to be compared are given the same `top` and the same `endMs`.
 */
import { formatDuration, formatInteger } from "@redrive/simulator/words";

const EIGHTHS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"] as const;

/** Ends a column whose value lies above the scale. */
const OVERFLOW_MARK = "▲";

/** `height` lines, top first. Anything above 0 shows; what lies above `top` ends in an arrow. */
export function columnLines(
  values: readonly number[],
  top: number,
  height: number,
): readonly string[] {
  const levels = values.map((value) => levelOf(value, top, height));
  return Array.from({ length: height }, (_, line) => {
    const floor = (height - 1 - line) * 8;
    const cells = levels.map((level, index) =>
      line === 0 && (values[index] ?? 0) > top * 1.001
        ? OVERFLOW_MARK
        : EIGHTHS[Math.min(8, Math.max(0, level - floor))],
    );
    return cells.join("").trimEnd();
  });
}

function levelOf(value: number, top: number, height: number): number {
  if (!(value > 0) || !(top > 0)) return 0;
  return Math.max(1, Math.round(Math.min(1, value / top) * height * 8));
}

export interface ChartOptions {
  /** Value of the topmost line. Above 0. */
  readonly top: number;
  /** Time at the right end of the axis. */
  readonly endMs: number;
  /** Characters in all, the scale included. */
  readonly width: number;
  readonly height: number;
  /** Spells a value of the scale. Default: a whole number. */
  readonly format?: (value: number) => string;
}

/** The columns with their scale on the left. */
export function chart(values: readonly number[], options: ChartOptions): readonly string[] {
  const { top, height, format: spell = formatInteger } = options;
  const scale = scaleWidth(options);
  return columnLines(values, top, height).map((line, index) => {
    const label = index === 0 ? spell(top) : "";
    return `${label.padStart(scale)} ${index === 0 ? "┤" : "│"}${line}`;
  });
}

/** The axis below one or several charts of the same options. */
export function timeAxis(options: ChartOptions): readonly string[] {
  const room = plotWidth(options);
  const scale = scaleWidth(options);
  const middle = formatDuration(options.endMs / 2);
  const end = formatDuration(options.endMs);
  const left = "0".padEnd(Math.floor((room - middle.length) / 2));
  const labels = (left + middle).padEnd(room - end.length) + end;
  return [
    `${"0".padStart(scale)} └${"─".repeat(room)}`,
    `${" ".repeat(scale + 2)}${labels}`.trimEnd(),
  ];
}

/** Characters that are left for columns. */
export function plotWidth(options: Pick<ChartOptions, "top" | "width" | "format">): number {
  return Math.max(10, options.width - scaleWidth(options) - 2);
}

function scaleWidth({
  top,
  format: spell = formatInteger,
}: Pick<ChartOptions, "top" | "format">): number {
  return Math.max(5, spell(top).length);
}
