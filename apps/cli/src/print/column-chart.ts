/**
 * Column chart: counts over time as vertical bars in eighths of a line, above a time axis. Give
 * charts that are compared the same `top` and `endMs`.
 */
import { formatDuration, formatInteger } from "@redrive/core";

const EIGHTHS = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"] as const;

/** Marks a column whose value is above the scale. */
const OVERFLOW_MARK = "▲";

/** Returns `height` lines, top first. Every value above 0 is visible; values above `top` get an arrow. */
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
  /** Value at the top of the scale. Greater than 0. */
  readonly top: number;
  /** Time at the right end of the axis. */
  readonly endMs: number;
  /** Characters, including the scale. */
  readonly width: number;
  readonly height: number;
  /** Formats a value of the scale. Default: an integer. */
  readonly format?: (value: number) => string;
}

/** Draws the columns with the scale on the left. */
export function chart(values: readonly number[], options: ChartOptions): readonly string[] {
  const { top, height, format = formatInteger } = options;
  const scale = scaleWidth(options);
  return columnLines(values, top, height).map((line, index) => {
    const label = index === 0 ? format(top) : "";
    return `${label.padStart(scale)} ${index === 0 ? "┤" : "│"}${line}`;
  });
}

/** Draws the time axis for one or more charts with the same options. */
export function timeAxis(options: ChartOptions): readonly string[] {
  const columns = plotWidth(options);
  const scale = scaleWidth(options);
  const middle = formatDuration(options.endMs / 2);
  const end = formatDuration(options.endMs);
  const left = "0".padEnd(Math.floor((columns - middle.length) / 2));
  const labels = (left + middle).padEnd(columns - end.length) + end;
  return [
    `${"0".padStart(scale)} └${"─".repeat(columns)}`,
    `${" ".repeat(scale + 2)}${labels}`.trimEnd(),
  ];
}

/** Returns how many columns fit beside the scale. */
export function plotWidth(options: Pick<ChartOptions, "top" | "width" | "format">): number {
  return Math.max(10, options.width - scaleWidth(options) - 2);
}

function scaleWidth({ top, format = formatInteger }: Pick<ChartOptions, "top" | "format">): number {
  return Math.max(5, format(top).length);
}
