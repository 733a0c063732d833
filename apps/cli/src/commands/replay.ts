/**
 * `redrive sim replay`: the attempt log of a running service in, and side by side what another
 * policy would have done with the same outage.
 */
import {
  formatCount,
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
} from "@redrive/core";
import { type Replay, type ReplayResult, replay } from "@redrive/simulator";
import { peaksOver, policySummary } from "@redrive/simulator/text";
import { type Command, Option } from "commander";
import { naming, readText } from "../documents.ts";
import { addExamples, addSeed } from "../flags.ts";
import { type Panel, type PanelsOptions, panelLines, panelsSvg } from "../panels.ts";
import { namedPolicy, type PolicyChoice, policyFile } from "../policy-choice.ts";
import {
  addOutput,
  finish,
  type OutputOptions,
  type Presentation,
  type Seed,
} from "../presentation.ts";
import type { Look, Screen } from "../screen.ts";
import { table } from "../terminal/table.ts";
import { wrap } from "../terminal/wrap.ts";

interface ReplayFlags extends OutputOptions {
  readonly policy?: string;
  readonly preset?: string;
  readonly seed: Seed;
}

export function addReplay(parent: Command, screen: Screen): void {
  const command = parent
    .command("replay <log>")
    .description("replay an attempt log or an export (NDJSON; - is stdin) under another policy");
  command
    .addOption(new Option("--preset <name>", "a policy that ships").conflicts("policy"))
    .option("--policy <file>", "a policy document");
  addSeed(command);
  addOutput(command, "json", "csv", "svg");
  addExamples(
    command,
    "redrive export --since 24h | redrive sim replay - --preset background",
    "redrive sim replay attempts.ndjson --policy mine.json --json",
  );
  command.action((log: string, flags: ReplayFlags) =>
    finish(screen, flags, () => presentReplay(log, flags)),
  );
}

export function presentReplay(log: string, flags: ReplayFlags): Presentation {
  const { seed } = flags;
  const choice =
    flags.policy === undefined ? namedPolicy(flags.preset ?? "default") : policyFile(flags.policy);
  const result = naming(log, () => replay(readText(log), choice.document, { seed }));
  return {
    seed,
    json: { seed, policy: choice.document, ...result },
    text: (look) => replayText(choice, result, look),
    csv: () => [["measure", "logged", "replayed"], ...measures(result)],
    svg: () => panelsSvg(TITLE, panelsOf(choice, result), scaleOf(result)),
  };
}

const TITLE = "Attempts over time, as logged and replayed";

function panelsOf({ name }: PolicyChoice, { series }: Replay): readonly Panel[] {
  const panel = (title: string, counts: readonly number[]): Panel => ({
    title,
    values: (columns) => peaksOver(counts, series.binMs, scaleOf({ series }).endMs, columns),
  });
  return [panel("as logged", series.logged), panel(`under ${name}`, series.replayed)];
}

function scaleOf({ series }: Pick<Replay, "series">): PanelsOptions {
  const { binMs, logged, replayed } = series;
  const top = [...logged, ...replayed].reduce((most, count) => Math.max(most, count), 1);
  return { top, endMs: logged.length * binMs, height: 3 };
}

const MEASURES = [
  "attempts",
  "succeeded",
  "exhausted",
  "unfinished",
  "meanMs",
  "p99Ms",
  "peakPerSecond",
] as const;

type Measure = readonly [name: keyof ReplayResult, logged: number, replayed: number];

function measures({ logged, replayed }: Replay): readonly Measure[] {
  return MEASURES.map((name) => [name, logged[name], replayed[name]]);
}

const WORDS: Readonly<Record<keyof ReplayResult, string>> = {
  attempts: "attempts",
  succeeded: "tasks that succeeded",
  exhausted: "tasks given up",
  unfinished: "tasks under way",
  meanMs: "time to success, mean",
  p99Ms: "time to success, p99",
  peakPerSecond: "most attempts in a second",
};

function replayText(choice: PolicyChoice, result: Replay, look: Look): readonly string[] {
  const told = measures(result).filter(([name, logged]) => name !== "unfinished" || logged > 0);
  const rows = told.map(([name, logged, replayed]) => {
    const spell = name.endsWith("Ms") ? formatDuration : formatInteger;
    return [WORDS[name], spell(logged), spell(replayed), change(logged, replayed)];
  });
  const columns = [
    { head: "" },
    { head: "logged", align: "right" },
    { head: choice.name, align: "right" },
    { head: "change", align: "right" },
  ] as const;
  return [
    ...wrap(`${formatCount(result.tasks, "task")}, ${troubleWords(result)}`, look.width),
    ...wrap(`${choice.name}: ${policySummary(choice.document)}`, look.width),
    "",
    ...table(columns, rows, look),
    "",
    ...panelLines(panelsOf(choice, result), scaleOf(result), look),
    ...wrap(`attempts that start within ${formatDuration(result.series.binMs)}`, look.width).map(
      (line) => look.paint("faint", line),
    ),
    "",
    ...wrap(guessWords(result), look.width),
  ];
}

function change(logged: number, replayed: number): string {
  if (logged === replayed) return "same";
  if (logged === 0) return "new";
  const share = Math.round((replayed / logged - 1) * 1000) / 10;
  return `${share > 0 ? "+" : ""}${formatNumber(share)} %`;
}

function troubleWords({ failuresFromAt, failuresToAt }: Replay): string {
  if (failuresFromAt === null || failuresToAt === null) return "and no failure in the log";
  return `failures over ${formatDuration(failuresToAt - failuresFromAt)}`;
}

function guessWords({ guessed, replayed }: Replay): string {
  if (guessed === 0) return "Every outcome was logged within 5 s of the attempt that got it.";
  const share = formatPercent(guessed / Math.max(1, replayed.attempts));
  return `${formatCount(guessed, "outcome")} (${share} of the attempts) had to be guessed: nothing was logged within 5 s.`;
}
