/**
 * `redrive sim ladder`: simulates the same outage several times and adds one mitigation each time,
 * which shows how much each one helps.
 */
import { formatDuration, formatNumber, formatPercent } from "@redrive/core";
import { type Report, type ScenarioDocument, scenarios, simulate } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import { ratesOver } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, addSeedFlag } from "../input/flags.ts";
import { type Panel, type PanelsOptions, panelsSvg } from "../print/panels.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../print/presentation.ts";
import { table } from "../print/table.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { wrap } from "../print/wrap.ts";
import { mapWithStatus } from "./simulation-status.ts";

interface LadderFlags extends OutputOptions {
  readonly seed: Seed;
}

export function addLadder(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("ladder")
    .description("Simulate the same outage several times and add one mitigation each time.");
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(command, "redrive sim ladder", "redrive sim run ladder-3-breaker");
  command.action((flags: LadderFlags) =>
    presentResult(terminal, flags, () => presentLadder(terminal, flags)),
  );
}

interface Rung {
  readonly scenario: ScenarioDocument;
  readonly report: Report;
}

export function presentLadder(terminal: Terminal, { seed }: LadderFlags): Presentation {
  const names = Object.keys(scenarios).filter((name) => name.startsWith("ladder-"));
  const named = names.map((name) => ({ name }));
  const rungs = mapWithStatus(terminal, named, ({ name }, onProgress) => {
    const scenario = scenarios[name] as ScenarioDocument;
    return { scenario, report: simulate(scenario, { seed, ...(onProgress && { onProgress }) }) };
  });
  return {
    seed,
    json: { seed, rungs: rungs.map(({ report }) => report) },
    text: (style) => ladderText(rungs, style),
    csv: () => csvRows(rungs),
    svg: () => panelsSvg(INTRO, rungs.map(panelOf), scaleOf(rungs)),
    run: { view: "system", seed, scenarios: names },
  };
}

const INTRO =
  "Two layers that both retry call a server whose capacity drops to a fifth from 20 s to 30 s.";

/** The chart of a rung: calls served per second. */
function panelOf({ report: { scenario, series, verdict } }: Rung): Panel {
  const { endMs } = endOf(series);
  return {
    title: `${scenario}: ${verdict}`,
    values: (columns) => ratesOver(series.succeeded, series.binMs, endMs, columns),
  };
}

function endOf({ succeeded, binMs }: Report["series"]) {
  return { endMs: Math.max(1, succeeded.length * binMs) };
}

function scaleOf(rungs: readonly Rung[]): PanelsOptions {
  const all = rungs.map(({ report }) => report.series);
  return {
    top: Math.max(1, ...all.map(peakPerSecond)),
    endMs: Math.max(...all.map((series) => endOf(series).endMs)),
    height: 4,
  };
}

function peakPerSecond({ succeeded, binMs }: Report["series"]): number {
  return (succeeded.reduce((max, count) => Math.max(max, count), 0) * 1000) / binMs;
}

const COLUMNS = [
  { head: "rung", wraps: true },
  { head: "attempts each", align: "right" },
  { head: "served", align: "right" },
  { head: "recovers", align: "right" },
] as const;

function ladderText(rungs: readonly Rung[], style: TextStyle): readonly string[] {
  const rows = rungs.map(({ scenario, report }) => [
    scenario.description ?? report.scenario,
    formatNumber(report.amplification),
    formatPercent(report.goodput),
    recovery(report),
  ]);
  return [...wrap(INTRO, style.width), "", ...table(COLUMNS, rows, style)];
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
