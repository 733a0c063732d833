/**
 * `redrive sim ladder`: one trouble, and the mitigations switched on one by one, so that one sees
 * which of them pays for itself.
 */
import { formatDuration, formatNumber, formatPercent } from "@redrive/core";
import { type Report, type ScenarioDocument, scenarios, simulate } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import { ratesOver } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, addSeed } from "../flags.ts";
import { type Panel, type PanelsOptions, panelsSvg } from "../panels.ts";
import {
  addOutput,
  finish,
  type OutputOptions,
  type Presentation,
  type Seed,
} from "../presentation.ts";
import type { Look, Screen } from "../screen.ts";
import { mapWithStatus } from "../status.ts";
import { table } from "../terminal/table.ts";
import { wrap } from "../terminal/wrap.ts";

interface LadderFlags extends OutputOptions {
  readonly seed: Seed;
}

export function addLadder(parent: Command, screen: Screen): void {
  const command = parent
    .command("ladder")
    .description("switch on one mitigation after the other over the same trouble");
  addSeed(command);
  addOutput(command, "json", "csv", "svg", "url");
  addExamples(command, "redrive sim ladder", "redrive sim run ladder-3-breaker");
  command.action((flags: LadderFlags) => finish(screen, flags, () => presentLadder(screen, flags)));
}

interface Rung {
  readonly scenario: ScenarioDocument;
  readonly report: Report;
}

export function presentLadder(screen: Screen, { seed }: LadderFlags): Presentation {
  const names = Object.keys(scenarios).filter((name) => name.startsWith("ladder-"));
  const named = names.map((name) => ({ name }));
  const rungs = mapWithStatus(screen, named, ({ name }, onProgress) => {
    const scenario = scenarios[name] as ScenarioDocument;
    return { scenario, report: simulate(scenario, { seed, ...(onProgress && { onProgress }) }) };
  });
  return {
    seed,
    json: { seed, rungs: rungs.map(({ report }) => report) },
    text: (look) => ladderText(rungs, look),
    csv: () => csvRows(rungs),
    svg: () => panelsSvg(INTRO, rungs.map(panelOf), scaleOf(rungs)),
    run: { view: "system", seed, scenarios: names },
  };
}

const INTRO =
  "Two layers that both retry call a server whose capacity drops to a fifth from 20 s to 30 s.";

/** What is served a second, by rung. */
function panelOf({ report: { scenario, series, verdict } }: Rung): Panel {
  const { endMs } = spanOf(series);
  return {
    title: `${scenario}: ${verdict}`,
    values: (columns) => ratesOver(series.succeeded, series.binMs, endMs, columns),
  };
}

function spanOf({ succeeded, binMs }: Report["series"]) {
  return { endMs: Math.max(1, succeeded.length * binMs) };
}

function scaleOf(rungs: readonly Rung[]): PanelsOptions {
  const all = rungs.map(({ report }) => report.series);
  return {
    top: Math.max(1, ...all.map(mostPerSecond)),
    endMs: Math.max(...all.map((series) => spanOf(series).endMs)),
    height: 4,
  };
}

function mostPerSecond({ succeeded, binMs }: Report["series"]): number {
  return (succeeded.reduce((most, count) => Math.max(most, count), 0) * 1000) / binMs;
}

const COLUMNS = [
  { head: "rung", gives: true },
  { head: "attempts each", align: "right" },
  { head: "served", align: "right" },
  { head: "recovers", align: "right" },
] as const;

function ladderText(rungs: readonly Rung[], look: Look): readonly string[] {
  const rows = rungs.map(({ scenario, report }) => [
    scenario.description ?? report.scenario,
    formatNumber(report.amplification),
    formatPercent(report.goodput),
    recovery(report),
  ]);
  return [...wrap(INTRO, look.width), "", ...table(COLUMNS, rows, look)];
}

function recovery({ recoveryMs }: Report) {
  if (recoveryMs === null || recoveryMs === undefined) {
    return { text: "never", tone: "bad" } as const;
  }
  return recoveryMs === 0 ? "at once" : `after ${formatDuration(recoveryMs)}`;
}

function csvRows(rungs: readonly Rung[]): CsvRow[] {
  const rows = rungs.map(({ report }) => [
    report.scenario,
    report.amplification,
    report.goodput,
    report.recoveryMs ?? "never",
    report.verdict,
  ]);
  return [["rung", "attemptsEach", "served", "recoveryMs", "verdict"], ...rows];
}
