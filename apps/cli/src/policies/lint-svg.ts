/** Lint SVG: draws findings: a dot for the severity, the rule, the problem, the fix. */
import type { Finding, Severity } from "@redrive/simulator";
import { label, MARGIN, svgDocument, WIDTH } from "../print/svg.ts";
import { wrap } from "../print/wrap.ts";

export interface DrawnDocument {
  readonly name: string;
  /** One line about the whole document. */
  readonly summary: string;
  readonly findings: readonly Finding[];
}

const LINE = 18;
const GAP = 10;
const LEFT = MARGIN + 22;
/** Characters that fit next to the dot, at 13 px. */
const COLUMNS = Math.floor((WIDTH - LEFT - MARGIN) / 7);

const DOTS: Readonly<Record<Severity, string>> = {
  error: "dot bad",
  warning: "dot",
  info: "range",
};

type Line = readonly [text: string, kind: string];

export function lintSvg(title: string, documents: readonly DrawnDocument[]): string {
  const body: string[] = [];
  let y = MARGIN;
  const write = (lines: readonly Line[], x: number) => {
    for (const [text, kind] of lines) {
      body.push(label(x, y, text, kind));
      y += LINE;
    }
  };
  for (const { name, summary, findings } of documents) {
    write(
      wrap(`${name}: ${summary}`, COLUMNS).map((line): Line => [line, ""]),
      MARGIN,
    );
    for (const finding of findings) {
      body.push(
        `<circle cx="${MARGIN + 8}" cy="${y - 4}" r="5" class="${DOTS[finding.severity]}"/>`,
      );
      write(linesOf(finding), LEFT);
      y += GAP;
    }
    y += GAP;
  }
  return svgDocument(title, y, body);
}

function linesOf({ severity, id, field, sentence, fix }: Finding): readonly Line[] {
  return [
    [`${severity} ${id} (${field})`, ""],
    ...wrap(sentence, COLUMNS).map((line): Line => [line, ""]),
    ...wrap(`Fix: ${fix}`, COLUMNS).map((line): Line => [line, "faint"]),
  ];
}
