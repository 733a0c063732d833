/** Advice text: formats the result of the advisor: policy, coverage, reasons, code. */

import { formatDuration, formatPercent } from "@redrive/core";
import { type Advice, type Answers, questions, type UsualDifference } from "@redrive/simulator";
import { adviceCode } from "@redrive/simulator/export";
import { policySummary } from "@redrive/simulator/text";
import { jsonLines } from "../print/json-lines.ts";
import { table } from "../print/table.ts";
import type { TextStyle } from "../print/terminal.ts";
import { wrap, wrapWithPrefix } from "../print/wrap.ts";

export function adviceText(answers: Answers, advice: Advice, style: TextStyle): readonly string[] {
  const { paint, width } = style;
  const head = (text: string) => ["", paint("strong", text)];
  const code = adviceCode(advice);
  return [
    paint("strong", "Answers"),
    ...answerLines(answers, style),
    ...head("Policy"),
    ...wrap(policySummary(advice.policy), width),
    ...jsonLines(advice.policy),
    ...head("Coverage"),
    ...wrap(coverageText(answers, advice), width),
    ...head("Why"),
    ...advice.reasons.flatMap((reason) => wrapWithPrefix("- ", reason, width)),
    ...(advice.differsFromUsual ? differenceLines(advice, advice.differsFromUsual, style) : []),
    ...head("Code for one call"),
    ...code.retry.split("\n"),
    ...head("Code for all calls to the dependency"),
    ...code.destination.split("\n"),
  ];
}

/** Lists the questions in order with their answers. Assumed answers are marked. */
function answerLines(answers: Answers, style: TextStyle): readonly string[] {
  const isPermanent = answers.transient === false;
  const rows = questions
    .filter(({ id }) => !isPermanent || id === "transient")
    .map((question) => {
      const given = answers[question.id];
      const value = given ?? question.fallback;
      const label = question.choices.find((choice) => choice.value === value)?.label;
      const answer =
        question.id === "outageMs" ? formatDuration(Number(value)) : (label ?? String(value));
      const text = question.text.replace(", in milliseconds", "");
      return [text, given === undefined ? `${answer} (assumed)` : answer];
    });
  return table([{ head: "", wraps: true }, { head: "" }], rows, style);
}

function coverageText(answers: Answers, { coverage }: Advice): string {
  const fallback = questions.find(({ id }) => id === "outageMs")?.fallback;
  const outageMs = answers.outageMs ?? Number(fallback);
  return `${formatPercent(coverage)} of the calls survive an outage of ${formatDuration(outageMs)}.`;
}

function differenceLines(
  { policy }: Advice,
  difference: UsualDifference,
  style: TextStyle,
): readonly string[] {
  const rows = [
    ["usual tree", difference.usual, formatPercent(difference.usualCoverage)],
    ["this advice", policySummary(policy), formatPercent(difference.ourCoverage)],
  ];
  const columns = [
    { head: "" },
    { head: "", wraps: true },
    { head: "survives", align: "right" },
  ] as const;
  return [
    "",
    style.paint("strong", "Difference from the usual decision tree"),
    ...table(columns, rows, style),
  ];
}
