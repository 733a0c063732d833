/**
 * `redrive advise`: recommends a policy, with its coverage, the reasons and the code that uses it.
 * The answers come from flags, or from questions on a terminal.
 */

import { isCancel, select, text as writeText } from "@clack/prompts";
import { formatCount, formatDuration, formatPercent, parseDuration } from "@redrive/core";
import {
  type Advice,
  type Answers,
  advise,
  type ClientClass,
  type Question,
  questions,
  schedule,
  type UsualDifference,
} from "@redrive/simulator";
import { adviceCode, type CsvRow } from "@redrive/simulator/export";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, choiceFlag, durationFlag, integerFlag } from "../terminal/flags.ts";
import {
  addOutputFlags,
  FAILED,
  jsonLines,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../terminal/presentation.ts";
import { table } from "../terminal/table.ts";
import { type Terminal, type TextStyle, wrap, wrapWithPrefix } from "../terminal/terminal.ts";
import { scheduleSvg } from "./schedule.ts";

interface AdviseFlags extends OutputOptions {
  readonly errors?: "transient" | "permanent";
  readonly idempotent?: "yes" | "key" | "no";
  readonly clients?: ClientClass;
  readonly minimumWait?: "yes" | "no";
  readonly background?: "yes" | "no";
  readonly waits?: "person" | "service" | "job";
  readonly outage?: number;
  readonly perProcess?: number;
  readonly tiers?: number;
  readonly shards?: number;
}

const yesOrNo = choiceFlag("yes", "no");

export function addAdvise(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("advise")
    .description("Recommend a policy. Asks questions on a terminal, or takes the answers as flags.")
    .option(
      "--errors <kind>",
      "kind of errors: transient or permanent",
      choiceFlag("transient", "permanent"),
    )
    .option(
      "--idempotent <answer>",
      "whether calls are safe to repeat: yes, key (with an idempotency key) or no",
      choiceFlag("yes", "key", "no"),
    )
    .option("--clients <count>", "number of clients that may fail at once", clientClass)
    .option("--minimum-wait <answer>", "whether every wait needs a minimum: yes or no", yesOrNo)
    .option(
      "--background <answer>",
      "whether the calls belong to a long-running job: yes or no",
      yesOrNo,
    )
    .option(
      "--waits <who>",
      "who waits for the response: person, service or job",
      choiceFlag("person", "service", "job"),
    )
    .option("--outage <duration>", "longest outage to survive, up to 24h", durationFlag)
    .option(
      "--per-process <count>",
      "calls that one process makes at once, up to 2000",
      integerFlag(1, 2000),
    )
    .option("--tiers <count>", "number of layers that could retry", integerFlag(1, 8))
    .option("--shards <count>", "number of parts that fail independently", integerFlag(1, 1000));
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive advise",
    "redrive advise --errors transient --idempotent key --clients 400 --per-process 400 --waits service --outage 8s",
    "redrive advise --background yes --outage 2h --json",
  );
  command.action((flags: AdviseFlags) =>
    presentResult(terminal, flags, () => runAdvise(terminal, flags)),
  );
}

/** Asks the questions only on a terminal and without any answer flag. */
async function runAdvise(terminal: Terminal, flags: AdviseFlags): Promise<Presentation> {
  const given = answersOf(flags);
  const isInteractive = Object.keys(given).length === 0 && terminal.isInteractive && !flags.json;
  if (!isInteractive) return presentAdvice(given);
  const asked = await askAnswers(clackPrompter());
  if (asked === undefined) return presentCanceled();
  const shown = presentAdvice(asked);
  const replay = `repeat: redrive advise ${answerFlags(asked).join(" ")}`;
  const text: Presentation["text"] = (style) => [
    style.paint("faint", replay),
    "",
    ...shown.text(style),
  ];
  return { ...shown, text };
}

/** Returns the flags that give these answers. */
export function answerFlags(answers: Answers): readonly string[] {
  const { transient, idempotent, clients, minimumWait, background, waits, outageMs } = answers;
  const yes = (answer: boolean | undefined) => answer && "yes";
  const flags: readonly [string, string | number | false | undefined][] = [
    ["--errors", transient === false ? "permanent" : transient && "transient"],
    ["--idempotent", idempotent],
    ["--clients", clients],
    ["--minimum-wait", yes(minimumWait)],
    ["--background", yes(background)],
    ["--waits", waits],
    ["--outage", outageMs === undefined ? undefined : `${outageMs}ms`],
    ["--per-process", answers.callsPerProcess],
    ["--tiers", answers.tiers],
    ["--shards", answers.shards],
  ];
  return flags.flatMap(([flag, value]) =>
    value === undefined || value === false ? [] : [flag, String(value)],
  );
}

function presentAdvice(answers: Answers): Presentation {
  const advice: Advice = advise(answers);
  return {
    json: { answers, ...advice, code: adviceCode(advice) },
    text: (style) => adviceText(answers, advice, style),
    csv: () => csvRows(answers, advice),
    svg: () => scheduleSvg(advice.policy, schedule(advice.policy)),
    run: { view: "advisor", answers },
  };
}

/** One row per answer (given or assumed), policy field and result. */
function csvRows(answers: Answers, { policy, coverage, survival }: Advice): readonly CsvRow[] {
  const asked = questions.map(({ id, fallback }) => [
    "answer",
    id,
    String(answers[id] ?? fallback),
  ]);
  const fields = Object.entries(policy).map(([name, value]) => ["policy", name, String(value)]);
  const results = [
    ["result", "coverage", coverage],
    ["result", "survival", survival.share],
  ];
  return [["part", "name", "value"], ...asked, ...fields, ...results];
}

function presentCanceled(): Presentation {
  return { json: {}, text: () => ["Canceled: no advice."], exitCode: FAILED };
}

function answersOf(flags: AdviseFlags): Answers {
  return {
    ...(flags.errors && { transient: flags.errors === "transient" }),
    ...(flags.idempotent && { idempotent: flags.idempotent }),
    ...(flags.clients && { clients: flags.clients }),
    ...(flags.minimumWait && { minimumWait: flags.minimumWait === "yes" }),
    ...(flags.background && { background: flags.background === "yes" }),
    ...(flags.waits && { waits: flags.waits }),
    ...(flags.outage !== undefined && { outageMs: flags.outage }),
    ...(flags.perProcess !== undefined && { callsPerProcess: flags.perProcess }),
    ...(flags.tiers !== undefined && { tiers: flags.tiers }),
    ...(flags.shards !== undefined && { shards: flags.shards }),
  };
}

/** The thresholds of the decision tree: few below 10, many up to 1000. */
function clientClass(text: string): ClientClass {
  if (text === "few" || text === "many" || text === "very-many") return text;
  const count = integerFlag(1, 2_000_000)(text);
  if (count < 10) return "few";
  return count <= 1000 ? "many" : "very-many";
}

// Advice text: formats the result of the advisor: policy, coverage, reasons, code.

function adviceText(answers: Answers, advice: Advice, style: TextStyle): readonly string[] {
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
    ...coverageTexts(answers, advice).flatMap((text) => wrapWithPrefix("- ", text, width)),
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

/** The share that each piece of code below reaches. */
function coverageTexts(answers: Answers, { coverage, survival, patience }: Advice): string[] {
  const fallback = questions.find(({ id }) => id === "outageMs")?.fallback;
  const outage = formatDuration(answers.outageMs ?? Number(fallback));
  const calls = formatCount(survival.calls, "call");
  const waiting = patience === "wait" ? ", which wait for its guards" : "";
  return [
    `One call: ${formatPercent(coverage)} survive an outage of ${outage}.`,
    `${calls} of a process to the dependency at once${waiting}: ${formatPercent(survival.share)} survive it (simulated with all guards).`,
  ];
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

// Advise questions: asks the user the advisor's questions in order and skips those that no longer
// matter. The prompter draws the prompts.

export type AnswerValue = string | number | boolean;

export interface Prompter {
  /** Returns one of several choices, or undefined if the user canceled. */
  choose(options: {
    readonly text: string;
    readonly help: string;
    readonly choices: readonly { readonly value: AnswerValue; readonly label: string }[];
    readonly fallback: AnswerValue;
  }): Promise<AnswerValue | undefined>;

  /** Returns a text for which `problem` is undefined, or undefined if the user canceled. */
  enterText(
    text: string,
    problem: (answer: string) => string | undefined,
  ): Promise<string | undefined>;
}

/** The choice to enter a value that is not among the suggestions. */
const OTHER_VALUE = "other";

/** Returns all answers, or undefined if the user canceled. */
export async function askAnswers(prompter: Prompter): Promise<Answers | undefined> {
  const answers: Record<string, AnswerValue> = {};
  for (const question of questions) {
    const { skipIf } = question;
    if (skipIf !== undefined && answers[skipIf.id] === skipIf.value) continue;
    const answer = await ask(prompter, question);
    if (answer === undefined) return undefined;
    answers[question.id] = answer;
  }
  return answers as Answers;
}

async function ask(prompter: Prompter, question: Question): Promise<AnswerValue | undefined> {
  const { help, choices, fallback, kind } = question;
  const text = question.text.replace(", in milliseconds", "");
  const more = kind === "number" ? [{ value: OTHER_VALUE, label: "Another ..." }] : [];
  const chosen = await prompter.choose({ text, help, choices: [...choices, ...more], fallback });
  if (chosen !== OTHER_VALUE || kind !== "number") return chosen;
  const written = await prompter.enterText(numberPrompt(question), (answer) =>
    validationProblem(question, answer),
  );
  return written === undefined ? undefined : parseNumber(question, written);
}

function numberPrompt({ id, min = 0, max = 0 }: Question): string {
  return id === "outageMs"
    ? 'How long, such as "90s" or "2h"?'
    : `How many, from ${min} to ${max}?`;
}

function parseNumber({ id }: Question, answer: string): number | undefined {
  if (id === "outageMs") return parseDuration(answer.trim());
  return /^\d{1,9}$/u.test(answer.trim()) ? Number(answer) : undefined;
}

function validationProblem(question: Question, answer: string): string | undefined {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = question;
  const value = parseNumber(question, answer);
  if (value !== undefined && value >= min && value <= max) return undefined;
  return question.id === "outageMs"
    ? 'Must be a duration such as "90s", at most "24h".'
    : `Must be from ${min} to ${max}.`;
}

function clackPrompter(): Prompter {
  return {
    async choose({ text, help, choices, fallback }) {
      const options = choices.map(({ value, label }) => ({ value, label }));
      const message = `${text}\n${help}`;
      const chosen = await select<AnswerValue>({ message, options, initialValue: fallback });
      return isCancel(chosen) ? undefined : chosen;
    },
    async enterText(text, problem) {
      const written = await writeText({
        message: text,
        validate: (answer) => problem(answer ?? ""),
      });
      return isCancel(written) ? undefined : written;
    },
  };
}
