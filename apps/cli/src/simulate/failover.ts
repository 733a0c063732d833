/**
 * `redrive sim failover`: the story that sells jitter. Every client has one job, the server is away
 * for a while, and what comes after decides: how long until all are served, and who gave up.
 */
import type { PolicyDocument } from "@redrive/core";
import { type CallsDocument, type Report, scenarios, simulate } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import {
  formatDuration,
  formatInteger,
  formatNumber,
  peaksOver,
  percent,
  policyWords,
} from "@redrive/simulator/words";
import type { Command } from "commander";
import { addExamples, addOutageFlag, addSeedFlag, integerFlag } from "../input/flags.ts";
import { addCurveFlags, type PolicyChoice } from "../input/policy-choice.ts";
import { comparisonLines, type Panel, type PanelsOptions, panelsSvg } from "../print/panels.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../print/presentation.ts";
import { table } from "../print/table.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { mapWithStatus } from "./simulation-status.ts";
import { addCompareFlags, chooseStrategies, type StrategyFlags } from "./strategy-choice.ts";

interface FailoverFlags extends StrategyFlags, OutputOptions {
  readonly clients: number;
  readonly outage: number;
  readonly capacity?: number;
  readonly seed: Seed;
}

/** As in the shipped scenario `failover`. */
const DEFAULTS: PolicyDocument = {
  maxAttempts: 12,
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  totalBudgetMs: 600_000,
};

/** The server needs this long for one job of every client. */
const SECONDS_FOR_ALL = 5;

export function addFailover(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("failover")
    .description("compare strategies when a server is away for a while and every client wants it");
  command.option(
    "-N, --clients <count>",
    "clients, one job each",
    integerFlag(1, 2_000_000),
    10_000,
  );
  addOutageFlag(command, "how long it is away");
  command.option(
    "--capacity <count>",
    "jobs a second it serves (default: a fifth of the clients)",
    integerFlag(1, 1_000_000),
  );
  addCompareFlags(command, ["immediate", "none", "equal", "full", "decorrelated"]);
  addSeedFlag(addCurveFlags(command));
  addOutputFlags(command, "json", "csv", "svg", "url");
  addExamples(
    command,
    "redrive sim failover",
    "redrive sim failover -N 400 --outage 8s --compare immediate,full --seed 7",
  );
  command.action((flags: FailoverFlags) =>
    presentResult(terminal, flags, () => presentFailover(terminal, flags)),
  );
}

interface Side {
  readonly choice: PolicyChoice;
  readonly scenario: CallsDocument;
  readonly report: Report;
}

export function presentFailover(terminal: Terminal, flags: FailoverFlags): Presentation {
  const { seed, clients, outage: outageMs } = flags;
  const sides = runSides(terminal, flags);
  const capacity = capacityOf(flags);
  const title = `${formatInteger(clients)} clients with one job each; the server is away for ${formatDuration(outageMs)}, then serves ${formatInteger(capacity)} a second`;
  return {
    seed,
    json: {
      seed,
      clients,
      outageMs,
      capacityPerSecond: capacity,
      strategies: sides.map(({ choice, report }) => ({ name: choice.name, report })),
    },
    text: (style) => failoverText(title, sides, style),
    csv: () => csvRows(sides),
    svg: () => panelsSvg(title, panelsOf(sides), scaleOf(sides)),
    run: { view: "system", seed, scenarios: sides.map(({ scenario }) => scenario) },
  };
}

function capacityOf({ capacity, clients }: FailoverFlags): number {
  return capacity ?? Math.max(1, Math.floor(clients / SECONDS_FOR_ALL));
}

function runSides(terminal: Terminal, flags: FailoverFlags): readonly Side[] {
  return mapWithStatus(terminal, chooseStrategies(flags, DEFAULTS), (choice, onProgress) => {
    const scenario = scenarioFor(flags, choice);
    const options = { seed: flags.seed, ...(onProgress && { onProgress }) };
    return { choice, scenario, report: simulate(scenario, options) };
  });
}

/** The shipped scenario with other clients, outage, capacity and policy. */
function scenarioFor(flags: FailoverFlags, { name, document }: PolicyChoice): CallsDocument {
  const shipped = scenarios["failover"] as CallsDocument;
  const server = { ...shipped.tiers?.[0]?.server, capacityPerSecond: capacityOf(flags) };
  const { description: _, ...rest } = shipped;
  return {
    ...rest,
    name: `failover-${name}`.replace(/[^a-z0-9-]/gu, "-").slice(0, 64),
    clients: { kind: "CLOSED", count: flags.clients, jobs: 1 },
    tiers: [{ name: "server", destination: { policy: document }, server }],
    timeline: [{ kind: "OUTAGE", atMs: 0, forMs: flags.outage }],
  };
}

/** Arrivals in bins of the run; the first calls, all at 0, would flatten everything after the outage. */
function scaleOf(sides: readonly Side[]): PanelsOptions {
  const endMs = Math.max(1, ...sides.map(({ report }) => report.doneAtMs));
  const tops = sides.map(({ report: { series }, scenario }) => {
    const outageMs = scenario.timeline?.[0]?.forMs ?? 0;
    const after = series.attempts.subarray(Math.floor(outageMs / series.binMs));
    return after.reduce((most, count) => Math.max(most, count), 0);
  });
  return { top: Math.max(1, ...tops), endMs, height: 4 };
}

function panelsOf(sides: readonly Side[]): readonly Panel[] {
  const { endMs } = scaleOf(sides);
  return sides.map(({ choice, report: { series, verdict } }) => ({
    title: `${choice.name}: ${verdict}`,
    note: policyWords(choice.document),
    values: (columns) => peaksOver(series.attempts, series.binMs, endMs, columns),
  }));
}

function failoverText(title: string, sides: readonly Side[], style: TextStyle): readonly string[] {
  const note = axisWords(sides);
  const table = summary(sides, style);
  return comparisonLines(
    { title, panels: panelsOf(sides), scale: scaleOf(sides), caption: note, table },
    style,
  );
}

function axisWords(sides: readonly Side[]): string {
  const binMs = sides[0]?.report.series.binMs ?? 0;
  return `attempts that reach the server within ${formatDuration(binMs)}; each column is as high as the fullest of them; ▲ lies above the scale`;
}

function summary(sides: readonly Side[], style: TextStyle): readonly string[] {
  const windowMs = sides[0]?.report.peakAfter.windowMs ?? 0;
  const rows = sides.map(({ choice, report }) => [
    choice.name,
    formatNumber(report.amplification),
    formatInteger(report.peakAfter.count),
    percent(report.lost / Math.max(1, report.calls)),
    report.succeeded === 0 ? "-" : formatDuration(report.doneAtMs),
  ]);
  const columns = [
    { head: "strategy" },
    { head: "calls each", align: "right" },
    { head: `peak after (${formatDuration(windowMs)})`, align: "right" },
    { head: "gave up", align: "right" },
    { head: "all done at", align: "right" },
  ] as const;
  return table(columns, rows, style);
}

function csvRows(sides: readonly Side[]): CsvRow[] {
  const head = [
    "strategy",
    "callsEach",
    "peakAfter",
    "windowMs",
    "succeeded",
    "lost",
    "doneAtMs",
    "verdict",
  ];
  const rows = sides.map(({ choice, report }) => [
    choice.name,
    report.amplification,
    report.peakAfter.count,
    report.peakAfter.windowMs,
    report.succeeded,
    report.lost,
    report.doneAtMs,
    report.verdict,
  ]);
  return [head, ...rows];
}
