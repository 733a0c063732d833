/**
 * `redrive advise`: recommends a policy, with its coverage, the reasons and the code that uses it.
 * The answers come from flags, or from questions on a terminal.
 */
import {
  type Advice,
  type Answers,
  advise,
  type ClientClass,
  questions,
  schedule,
} from "@redrive/simulator";
import { adviceCode, type CsvRow } from "@redrive/simulator/export";
import type { Command } from "commander";
import { addExamples, choiceFlag, durationFlag, integerFlag } from "../input/flags.ts";
import {
  addOutputFlags,
  FAILED,
  type OutputOptions,
  type Presentation,
  presentResult,
} from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import { adviceText } from "./advice-text.ts";
import { askAnswers } from "./advise-questions.ts";
import { clackPrompter } from "./clack-prompter.ts";
import { scheduleSvg } from "./schedule-svg.ts";

interface AdviseFlags extends OutputOptions {
  readonly errors?: "transient" | "permanent";
  readonly idempotent?: "yes" | "key" | "no";
  readonly clients?: ClientClass;
  readonly minimumWait?: "yes" | "no";
  readonly background?: "yes" | "no";
  readonly waits?: "person" | "service" | "job";
  readonly outage?: number;
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
    .option("--tiers <count>", "number of layers that could retry", integerFlag(1, 8))
    .option("--shards <count>", "number of parts that fail independently", integerFlag(1, 1000));
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive advise",
    "redrive advise --errors transient --idempotent key --clients 400 --waits service --outage 8s",
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
    ["--tiers", answers.tiers],
    ["--shards", answers.shards],
  ];
  return flags.flatMap(([flag, value]) =>
    value === undefined || value === false ? [] : [flag, String(value)],
  );
}

export function presentAdvice(answers: Answers): Presentation {
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
function csvRows(answers: Answers, { policy, coverage }: Advice): readonly CsvRow[] {
  const asked = questions.map(({ id, fallback }) => [
    "answer",
    id,
    String(answers[id] ?? fallback),
  ]);
  const fields = Object.entries(policy).map(([name, value]) => ["policy", name, String(value)]);
  return [["part", "name", "value"], ...asked, ...fields, ["result", "coverage", coverage]];
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
