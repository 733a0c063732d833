/**
 * Charts: horizontal bars, columns over time and stacked panels, as terminal text or as SVG. Panels
 * share one scale and one time axis, so their heights are comparable. No library draws them.
 */

import { formatDuration, formatInteger } from "@redrive/core";
import { type TextStyle, wrap } from "./terminal.ts";

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

interface Comparison {
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

// Column chart: counts over time as vertical bars in eighths of a line, above a time axis. Give
// charts that are compared the same `top` and `endMs`.

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

interface ChartOptions {
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

// Bar: a horizontal bar, drawn in eighths of a character for a finer resolution than one column.

const BAR_EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"] as const;
const FULL_BLOCK = "█";

/** Draws `value` on a scale from 0 to `top`. Any value above 0 is visible. At most `width` characters. */
export function bar(value: number, top: number, width: number): string {
  const eighths = eighthsOf(value, top, width);
  return FULL_BLOCK.repeat(Math.floor(eighths / 8)) + (BAR_EIGHTHS[eighths % 8] ?? "");
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

// SVG: draws small charts without a library: bars for the waits of one call, columns for counts
// over time. Charts follow the reader's light or dark color scheme, and every number has a unit.

const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .faint { fill: #66727f; }
  .middle { text-anchor: middle; }
  .right { text-anchor: end; font-variant-numeric: tabular-nums; }
  .ink { fill: #0b7285; }
  .range { fill: #0b7285; opacity: 0.18; }
  .dot { fill: #0b7285; opacity: 0.6; }
  .bad { fill: #c92a2a; }
  .rule { stroke: #c3ccd5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e9ee; } .faint { fill: #9aa7b4; } .ink, .dot { fill: #3bc9db; }
    .bad { fill: #ff8787; } .range { fill: #3bc9db; } .rule { stroke: #475460; }
  }`;

export const WIDTH = 760;
export const MARGIN = 24;

export function svgDocument(title: string, height: number, body: readonly string[]): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">
<title>${escapeXml(title)}</title>
<style>${STYLE}
</style>
${body.join("\n")}
</svg>
`;
}

export function label(x: number, y: number, text: string, kind = ""): string {
  return `<text x="${round(x)}" y="${round(y)}"${kind && ` class="${kind}"`}>${escapeXml(text)}</text>`;
}

export function rect(x: number, y: number, width: number, height: number, kind: string): string {
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" class="${kind}"/>`;
}

interface SvgBar {
  readonly label: string;
  readonly lowMs: number;
  readonly highMs: number;
  readonly valueMs: number;
  readonly caption: string;
}

const ROW = 28;
const BAR_LEFT = 110;
const BAR_RIGHT = 250;

/** Draws one bar per row, in front of the range that the value was drawn from. */
export function svgBars(title: string, bars: readonly SvgBar[]): string {
  const top = Math.max(1, ...bars.map((one) => one.highMs));
  const maxWidth = WIDTH - BAR_LEFT - BAR_RIGHT;
  const x = (ms: number) => BAR_LEFT + (ms / top) * maxWidth;
  const rows = bars.flatMap((one, index) => {
    const y = MARGIN + 20 + index * ROW;
    return [
      label(BAR_LEFT - 12, y + 15, one.label, "right"),
      rect(x(one.lowMs), y, x(one.highMs) - x(one.lowMs), 20, "range"),
      rect(BAR_LEFT, y + 5, x(one.valueMs) - BAR_LEFT, 10, "ink"),
      label(WIDTH - BAR_RIGHT + 90, y + 15, formatDuration(one.valueMs), "right"),
      label(WIDTH - BAR_RIGHT + 106, y + 15, one.caption, "faint"),
    ];
  });
  const height = MARGIN * 2 + 20 + bars.length * ROW;
  return svgDocument(title, height, [label(MARGIN, MARGIN, title), ...rows]);
}

interface SvgPanel {
  readonly title: string;
  readonly values: readonly number[];
}

interface SvgColumnsOptions {
  readonly title: string;
  /** Value at the top of every panel. */
  readonly top: number;
  readonly endMs: number;
}

const PANEL = 130;
const PLOT = 80;
const PLOT_LEFT = 80;

/** Draws stacked panels on one scale and one time axis. */
function svgColumns(panels: readonly SvgPanel[], options: SvgColumnsOptions): string {
  const { title, top, endMs } = options;
  const body = panels.flatMap((panel, index) =>
    panelElements(panel, MARGIN + 16 + index * PANEL, top),
  );
  const height = MARGIN + 16 + panels.length * PANEL + MARGIN;
  const axis = [
    label(PLOT_LEFT, height - 12, "0", "faint"),
    label(WIDTH - MARGIN, height - 12, formatDuration(endMs), "faint right"),
  ];
  return svgDocument(title, height, [label(MARGIN, MARGIN, title), ...body, ...axis]);
}

function panelElements(panel: SvgPanel, y: number, top: number): readonly string[] {
  const width = WIDTH - PLOT_LEFT - MARGIN;
  const step = width / Math.max(1, panel.values.length);
  const base = y + 30 + PLOT;
  const columns = panel.values.flatMap((value, index) => {
    const height = Math.min(1, value / top) * PLOT;
    if (!(height > 0)) return [];
    return [
      rect(PLOT_LEFT + index * step, base - height, Math.max(0.5, step * 0.9), height, "ink"),
    ];
  });
  return [
    label(PLOT_LEFT, y + 20, panel.title, "faint"),
    label(PLOT_LEFT - 10, y + 40, formatInteger(top), "right"),
    ...columns,
    `<line x1="${PLOT_LEFT}" x2="${WIDTH - MARGIN}" y1="${base}" y2="${base}" class="rule"/>`,
  ];
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

/** Characters that XML does not allow, not even escaped (XML 1.0, section 2.2). */
const FORBIDDEN = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu;

export function escapeXml(text: string): string {
  return text
    .replace(FORBIDDEN, "\u{fffd}")
    .replace(/[&<>"]/gu, (character) => ENTITIES[character] ?? character);
}
