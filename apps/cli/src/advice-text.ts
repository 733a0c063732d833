/** Advice text: what the advisor came to, for people: policy, coverage, reasons, code. */
import { formatDuration, formatPercent } from "@redrive/core";
import { type Advice, type Answers, questions, type UsualDifference } from "@redrive/simulator";
import { adviceCode } from "@redrive/simulator/export";
import { policySummary } from "@redrive/simulator/text";
import type { Look } from "./screen.ts";
import { jsonLines } from "./terminal/json-lines.ts";
import { table } from "./terminal/table.ts";
import { wrap, wrapAfter } from "./terminal/wrap.ts";

export function adviceText(answers: Answers, advice: Advice, look: Look): readonly string[] {
  const { paint, width } = look;
  const head = (text: string) => ["", paint("strong", text)];
  const code = adviceCode(advice);
  return [
    paint("strong", "Answers"),
    ...answerLines(answers, look),
    ...head("Policy"),
    ...wrap(policySummary(advice.policy), width),
    ...jsonLines(advice.policy),
    ...head("Coverage"),
    ...wrap(coverageWords(answers, advice), width),
    ...head("Why"),
    ...advice.reasons.flatMap((reason) => wrapAfter("- ", reason, width)),
    ...(advice.differsFromUsual ? differenceLines(advice, advice.differsFromUsual, look) : []),
    ...head("Code, for one call"),
    ...code.retry.split("\n"),
    ...head("Code, for everything that calls the dependency"),
    ...code.destination.split("\n"),
  ];
}

/** Questions in their order; what nobody answered is marked. */
function answerLines(answers: Answers, look: Look): readonly string[] {
  const isOver = answers.transient === false;
  const rows = questions
    .filter(({ id }) => !isOver || id === "transient")
    .map((question) => {
      const given = answers[question.id];
      const value = given ?? question.fallback;
      const label = question.choices.find((choice) => choice.value === value)?.label;
      const spelt =
        question.id === "outageMs" ? formatDuration(Number(value)) : (label ?? String(value));
      const text = question.text.replace(", in milliseconds", "");
      return [text, given === undefined ? `${spelt}, assumed` : spelt];
    });
  return table([{ head: "", gives: true }, { head: "" }], rows, look);
}

function coverageWords(answers: Answers, { coverage }: Advice): string {
  const fallback = questions.find(({ id }) => id === "outageMs")?.fallback;
  const outageMs = answers.outageMs ?? Number(fallback);
  return `An outage of ${formatDuration(outageMs)} is outlasted by ${formatPercent(coverage)} of the calls.`;
}

function differenceLines(
  { policy }: Advice,
  difference: UsualDifference,
  look: Look,
): readonly string[] {
  const rows = [
    ["the usual tree", difference.usual, formatPercent(difference.usualCoverage)],
    ["this advice", policySummary(policy), formatPercent(difference.ourCoverage)],
  ];
  const columns = [
    { head: "" },
    { head: "", gives: true },
    { head: "outlasts", align: "right" },
  ] as const;
  return [
    "",
    look.paint("strong", "Where this differs from the usual decision tree"),
    ...table(columns, rows, look),
  ];
}
