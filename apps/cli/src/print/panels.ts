/**
 * Panels: charts above one another on one scale and one time axis, for the terminal and as a
 * picture, so that what looks taller is more.
 */

import { chart, plotWidth, timeAxis } from "./column-chart.ts";
import { svgColumns } from "./svg.ts";
import type { TextStyle } from "./terminal.ts";
import { wrap } from "./wrap.ts";

export interface Panel {
  readonly title: string;
  /** A second line, in small words. */
  readonly caption?: string;
  /** One value a column; as many as were asked for. */
  values(columns: number): readonly number[];
}

export interface PanelsOptions {
  /** Value of the upper edge of every panel. */
  readonly top: number;
  readonly endMs: number;
  /** Lines of each panel. */
  readonly height: number;
  readonly format?: (value: number) => string;
}

export function panelLines(
  panels: readonly Panel[],
  options: PanelsOptions,
  { width, paint }: TextStyle,
): readonly string[] {
  const chartOptions = { ...options, width };
  const room = plotWidth(chartOptions);
  const lines = panels.flatMap((panel) => [
    ...wrap(panel.title, width).map((line) => paint("strong", line)),
    ...(panel.caption ? wrap(panel.caption, width).map((line) => paint("faint", line)) : []),
    ...chart(panel.values(room), chartOptions).map((line) => paintColumns(line, paint)),
    "",
  ]);
  return [...lines.slice(0, -1), ...timeAxis(chartOptions).map((line) => paint("faint", line))];
}

export interface Comparison {
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly scale: PanelsOptions;
  /** What the columns mean, in small words below them. */
  readonly caption: string;
  /** The same in figures, a row a side. */
  readonly table: readonly string[];
}

/** Several runs side by side: what was asked, their charts on one scale, and a table. */
export function comparisonLines(
  { title, panels, scale, caption: note, table }: Comparison,
  style: TextStyle,
): readonly string[] {
  return [
    ...wrap(title, style.width),
    "",
    ...panelLines(panels, scale, style),
    ...wrap(note, style.width).map((line) => style.paint("faint", line)),
    "",
    ...table,
  ];
}

/** The scale stays plain, what is drawn gets the accent. */
function paintColumns(line: string, paint: TextStyle["paint"]): string {
  const edge = line.search(/[┤│]/u) + 1;
  return paint("faint", line.slice(0, edge)) + paint("accent", line.slice(edge));
}

/** Columns of a picture. */
export const SVG_COLUMNS = 300;

export function panelsSvg(title: string, panels: readonly Panel[], options: PanelsOptions): string {
  const drawn = panels.map((panel) => ({
    title: panel.title,
    values: panel.values(SVG_COLUMNS),
  }));
  return svgColumns(drawn, { title, top: options.top, endMs: options.endMs });
}
