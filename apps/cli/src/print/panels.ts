/**
 * Panels: stacked charts that share one scale and one time axis, as terminal text or as SVG. The
 * shared scale makes column heights comparable between panels.
 */

import { chart, plotWidth, timeAxis } from "./column-chart.ts";
import { svgColumns } from "./svg.ts";
import type { TextStyle } from "./terminal.ts";
import { wrap } from "./wrap.ts";

export interface Panel {
  readonly title: string;
  /** Second line below the title. */
  readonly caption?: string;
  /** Returns one value per column. */
  values(columns: number): readonly number[];
}

export interface PanelsOptions {
  /** Value at the top of every panel. */
  readonly top: number;
  readonly endMs: number;
  /** Lines per panel. */
  readonly height: number;
  readonly format?: (value: number) => string;
}

export function panelLines(
  panels: readonly Panel[],
  options: PanelsOptions,
  { width, paint }: TextStyle,
): readonly string[] {
  const chartOptions = { ...options, width };
  const columns = plotWidth(chartOptions);
  const lines = panels.flatMap((panel) => [
    ...wrap(panel.title, width).map((line) => paint("strong", line)),
    ...(panel.caption ? wrap(panel.caption, width).map((line) => paint("faint", line)) : []),
    ...chart(panel.values(columns), chartOptions).map((line) => paintColumns(line, paint)),
    "",
  ]);
  return [...lines.slice(0, -1), ...timeAxis(chartOptions).map((line) => paint("faint", line))];
}

export interface Comparison {
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly scale: PanelsOptions;
  /** Explains the columns, below the charts. */
  readonly caption: string;
  /** The same result in numbers, one row per panel. */
  readonly table: readonly string[];
}

/** Shows several runs: the title, their charts on one scale, and a table. */
export function comparisonLines(
  { title, panels, scale, caption, table }: Comparison,
  style: TextStyle,
): readonly string[] {
  return [
    ...wrap(title, style.width),
    "",
    ...panelLines(panels, scale, style),
    ...wrap(caption, style.width).map((line) => style.paint("faint", line)),
    "",
    ...table,
  ];
}

/** Colors the columns; the scale stays faint. */
function paintColumns(line: string, paint: TextStyle["paint"]): string {
  const edge = line.search(/[┤│]/u) + 1;
  return paint("faint", line.slice(0, edge)) + paint("accent", line.slice(edge));
}

/** Columns of an SVG chart. */
export const SVG_COLUMNS = 300;

export function panelsSvg(title: string, panels: readonly Panel[], options: PanelsOptions): string {
  const drawn = panels.map((panel) => ({
    title: panel.title,
    values: panel.values(SVG_COLUMNS),
  }));
  return svgColumns(drawn, { title, top: options.top, endMs: options.endMs });
}
