/**
 * `redrive sim replay`: replays the attempt log of a service under another policy and shows both
 * results next to each other.
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
import { type Panel, type PanelsOptions, panelLines, panelsSvg } from "../terminal/charts.ts";
import { readText, withFileName } from "../terminal/documents.ts";
import { addExamples, addSeedFlag } from "../terminal/flags.ts";
import { namedPolicy, type PolicyChoice, policyFromFile } from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { table } from "../terminal/table.ts";
import { type Terminal, type TextStyle, wrap } from "../terminal/terminal.ts";

interface ReplayFlags extends OutputOptions {
  readonly policyFile?: string;
  readonly preset?: string;
  readonly seed: Seed;
}

export function addReplay(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("replay <log>")
    .description(
      "Replay an attempt log or an export (NDJSON) under another policy. Use - for standard input.",
    );
  command
    .addOption(new Option("--preset <name>", "a preset or a catalog entry").conflicts("policyFile"))
    .option("--policy-file <file>", "a policy document; - reads standard input");
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg");
  addExamples(
    command,
    "redrive tasks export --since 24h | redrive sim replay - --preset background",
    "redrive sim replay attempts.ndjson --policy-file mine.json --json",
  );
  command.action((log: string, flags: ReplayFlags) =>
    presentResult(terminal, flags, () => presentReplay(log, flags)),
  );
}

function presentReplay(log: string, flags: ReplayFlags): Presentation {
  const { seed } = flags;
  const choice =
    flags.policyFile === undefined
      ? namedPolicy(flags.preset ?? "default")
      : policyFromFile(flags.policyFile);
  const result = withFileName(log, () => replay(readText(log), choice.document, { seed }));
  return {
    seed,
    json: { seed, policy: choice.document, ...result },
    text: (style) => replayText(choice, result, style),
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
  const top = [...logged, ...replayed].reduce((max, count) => Math.max(max, count), 1);
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

const LABELS: Readonly<Record<keyof ReplayResult, string>> = {
  attempts: "attempts",
  succeeded: "tasks that succeeded",
  exhausted: "tasks that failed",
  unfinished: "unfinished tasks",
  meanMs: "time to success, mean",
  p99Ms: "time to success, p99",
  peakPerSecond: "peak attempts per second",
};

function replayText(choice: PolicyChoice, result: Replay, style: TextStyle): readonly string[] {
  const shown = measures(result).filter(([name, logged]) => name !== "unfinished" || logged > 0);
  const rows = shown.map(([name, logged, replayed]) => {
    const format = name.endsWith("Ms") ? formatDuration : formatInteger;
    return [LABELS[name], format(logged), format(replayed), change(logged, replayed)];
  });
  const columns = [
    { head: "" },
    { head: "logged", align: "right" },
    { head: choice.name, align: "right" },
    { head: "change", align: "right" },
  ] as const;
  return [
    ...wrap(`${formatCount(result.tasks, "task")}, ${outageText(result)}`, style.width),
    ...wrap(`${choice.name}: ${policySummary(choice.document)}`, style.width),
    "",
    ...table(columns, rows, style),
    "",
    ...panelLines(panelsOf(choice, result), scaleOf(result), style),
    ...wrap(`attempts that start within ${formatDuration(result.series.binMs)}`, style.width).map(
      (line) => style.paint("faint", line),
    ),
    "",
    ...wrap(guessText(result), style.width),
  ];
}

function change(logged: number, replayed: number): string {
  if (logged === replayed) return "same";
  if (logged === 0) return "new";
  const share = Math.round((replayed / logged - 1) * 1000) / 10;
  return `${share > 0 ? "+" : ""}${formatNumber(share)} %`;
}

function outageText({ failuresFromAt, failuresToAt }: Replay): string {
  if (failuresFromAt === null || failuresToAt === null) return "and no failure in the log";
  return `failures over ${formatDuration(failuresToAt - failuresFromAt)}`;
}

function guessText({ guessed, replayed }: Replay): string {
  if (guessed === 0) return "For every replayed attempt, the log has an outcome within 5 s.";
  const share = formatPercent(guessed / Math.max(1, replayed.attempts));
  return `${formatCount(guessed, "outcome")} (${share} of the attempts) had to be guessed: the log has nothing within 5 s.`;
}
