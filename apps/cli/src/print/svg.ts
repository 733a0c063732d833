/**
 * SVG: draws small charts without a library: bars for the waits of one call, columns for counts
 * over time. Charts follow the reader's light or dark color scheme, and every number has a unit.
 */
import { formatDuration, formatInteger } from "@redrive/core";

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

export interface SvgBar {
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

export interface SvgPanel {
  readonly title: string;
  readonly values: readonly number[];
}

export interface SvgColumnsOptions {
  readonly title: string;
  /** Value at the top of every panel. */
  readonly top: number;
  readonly endMs: number;
}

const PANEL = 130;
const PLOT = 80;
const PLOT_LEFT = 80;

/** Draws stacked panels on one scale and one time axis. */
export function svgColumns(panels: readonly SvgPanel[], options: SvgColumnsOptions): string {
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
