/** SVG dots: groups of results on one scale that shows how far each is from its expected value. */
import { escapeXml, label, MARGIN, rect, round, svgDocument, WIDTH } from "./svg.ts";

export interface SvgDot {
  /** 0 is the expected value; -1 and 1 are the bounds. Values far outside are drawn at the edge. */
  readonly at: number;
  readonly isBad: boolean;
  /** Tooltip in a browser. */
  readonly text: string;
}

export interface SvgLine {
  readonly label: string;
  readonly dots: readonly SvgDot[];
}

const LINE = 26;
const LEFT = 130;
const MAX_OFFSET = 1.4;
const TICKS = [
  [-1, "lowest allowed"],
  [0, "published"],
  [1, "highest allowed"],
] as const;

export function svgDots(title: string, lines: readonly SvgLine[]): string {
  const x = (at: number) => {
    const bounded = Math.min(MAX_OFFSET, Math.max(-MAX_OFFSET, at));
    return LEFT + ((bounded + MAX_OFFSET) / (2 * MAX_OFFSET)) * (WIDTH - LEFT - MARGIN);
  };
  const top = MARGIN + 20;
  const bottom = top + lines.length * LINE;
  const ticks = TICKS.flatMap(([at, text]) => [
    `<line x1="${round(x(at))}" x2="${round(x(at))}" y1="${top}" y2="${bottom + 4}" class="rule"/>`,
    label(x(at), bottom + 20, text, "faint middle"),
  ]);
  const drawn = lines.flatMap((line, index) => {
    const y = top + (index + 0.5) * LINE;
    return [
      label(LEFT - 14, y + 4, line.label, "right"),
      ...line.dots.map((dot) => dotElement(x(dot.at), y, dot)),
    ];
  });
  const band = rect(x(-1), top, x(1) - x(-1), bottom - top, "range");
  const body = [label(MARGIN, MARGIN, title), band, ...ticks, ...drawn];
  return svgDocument(title, bottom + MARGIN + 12, body);
}

function dotElement(x: number, y: number, { isBad, text }: SvgDot): string {
  const title = `<title>${escapeXml(text)}</title>`;
  return `<circle cx="${round(x)}" cy="${round(y)}" r="4" class="dot${isBad ? " bad" : ""}">${title}</circle>`;
}
