/** Finding text: formats a finding of lint: severity, rule, problem, fix. */
import type { Finding, Severity } from "@redrive/simulator";
import type { Tone } from "../print/paint.ts";
import type { TextStyle } from "../print/terminal.ts";
import { wrapWithPrefix } from "../print/wrap.ts";

const TONES: Readonly<Record<Severity, Tone>> = { error: "bad", warning: "warn", info: "accent" };

/** Length of the longest severity, so that the rules align. */
const SEVERITY_WIDTH = 7;

export function findingLines(finding: Finding, { width, paint }: TextStyle): readonly string[] {
  const { severity, id, field, sentence, fix, docs } = finding;
  const indent = " ".repeat(SEVERITY_WIDTH + 4);
  const severityText = paint(TONES[severity], severity.padEnd(SEVERITY_WIDTH));
  return [
    `  ${severityText}  ${paint("strong", id)} ${paint("faint", `(${field})`)}`,
    ...wrapWithPrefix(indent, sentence, width),
    ...wrapWithPrefix(`${indent}Fix: `, fix, width),
    paint("faint", `${indent}${docs}`),
  ];
}
