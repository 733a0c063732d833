/**
 * `redrive sim failover`: compares strategies when a server fails over. Every client has one job,
 * and the server is down at first. Shows how long until all jobs are done and how many are lost.
 */
import type { PolicyDocument } from "@redrive/core";
import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import {
  type CallsDocument,
  type OnProgress,
  type Report,
  scenarios,
  simulate,
} from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import { peaksOver } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, addOutageFlag, integerFlag } from "../input/flags.ts";
import type { PolicyChoice } from "../input/policy-choice.ts";
import type { PanelsOptions } from "../print/panels.ts";
import { addOutputFlags, type Presentation, presentResult } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addClientsFlag,
  addComparisonFlags,
  type ComparisonFlags,
  presentComparison,
  runSides,
  type Side,
} from "./strategy-comparison.ts";

interface FailoverFlags extends ComparisonFlags {
  readonly outage: number;
  readonly capacity?: number;
}

/** As in the built-in scenario `failover`. */
const DEFAULTS: PolicyDocument = {
  maxAttempts: 12,
  initialDelayMs: 100,
  maxDelayMs: 20_000,
  totalBudgetMs: 600_000,
};

/** By default the server needs this long to serve one job of every client. */
const SECONDS_FOR_ALL = 5;

export function addFailover(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("failover")
    .description("Compare strategies for many clients of one server that is down for a while.");
  addClientsFlag(command, "number of clients, with one job each");
  addOutageFlag(command, "how long the server is down");
  command.option(
    "--capacity <count>",
    "jobs that the server serves per second (default: a fifth of the clients)",
    integerFlag(1, 1_000_000),
  );
  addComparisonFlags(command, ["immediate", "none", "equal", "full", "decorrelated"]);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive sim failover",
    "redrive sim failover -N 400 --outage 8s --compare immediate,full --seed 7",
  );
  command.action((flags: FailoverFlags) =>
    presentResult(terminal, flags, () => presentFailover(terminal, flags)),
  );
}

interface Run {
  readonly scenario: CallsDocument;
  readonly report: Report;
}

export function presentFailover(terminal: Terminal, flags: FailoverFlags): Presentation {
  const { seed, clients, outage: outageMs } = flags;
  const sides = runSides(terminal, flags, DEFAULTS, (choice, onProgress) =>
    runFailover(flags, choice, onProgress),
  );
  const capacity = capacityOf(flags);
  const scale = scaleOf(sides, outageMs);
  const strategies = sides.map(({ choice: { name }, result: { report } }) => ({ name, report }));
  return presentComparison(seed, sides, {
    title: `${formatInteger(clients)} clients with one job each; the server is down for ${formatDuration(outageMs)}, then serves ${formatInteger(capacity)} per second`,
    scale,
    panelTitle: ({ result }) => result.report.verdict,
    panelValues: ({ report: { series } }, columns) =>
      peaksOver(series.attempts, series.binMs, scale.endMs, columns),
    caption: captionOf(sides),
    columns: columnsFor(sides),
    cells: cellsOf,
    json: { seed, clients, outageMs, capacityPerSecond: capacity, strategies },
    csv: () => csvRows(sides),
    run: { view: "system", seed, scenarios: sides.map(({ result }) => result.scenario) },
  });
}

function capacityOf({ capacity, clients }: FailoverFlags): number {
  return capacity ?? Math.max(1, Math.floor(clients / SECONDS_FOR_ALL));
}

function runFailover(
  flags: FailoverFlags,
  choice: PolicyChoice,
  onProgress: OnProgress | undefined,
): Run {
  const scenario = scenarioFor(flags, choice);
  const options = { seed: flags.seed, ...(onProgress && { onProgress }) };
  return { scenario, report: simulate(scenario, options) };
}

/** The built-in scenario with the given clients, outage, capacity and policy. */
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

/** Ignores the outage: all first calls start at 0 and would flatten the rest of the chart. */
function scaleOf(sides: readonly Side<Run>[], outageMs: number): PanelsOptions {
  const endMs = Math.max(1, ...sides.map(({ result }) => result.report.doneAtMs));
  const tops = sides.map(({ result }) => {
    const { attempts, binMs } = result.report.series;
    const after = attempts.subarray(Math.floor(outageMs / binMs));
    return after.reduce((max, count) => Math.max(max, count), 0);
  });
  return { top: Math.max(1, ...tops), endMs, height: 4 };
}

function captionOf(sides: readonly Side<Run>[]): string {
  const binMs = sides[0]?.result.report.series.binMs ?? 0;
  return `attempts that reach the server within ${formatDuration(binMs)}; each column shows its maximum; ▲ is above the scale`;
}

function columnsFor(sides: readonly Side<Run>[]) {
  const windowMs = sides[0]?.result.report.peakAfter.windowMs ?? 0;
  return [
    { head: "calls each", align: "right" },
    { head: `peak after (${formatDuration(windowMs)})`, align: "right" },
    { head: "gave up", align: "right" },
    { head: "all done at", align: "right" },
  ] as const;
}

function cellsOf({ report }: Run): readonly string[] {
  return [
    formatNumber(report.amplification),
    formatInteger(report.peakAfter.count),
    formatPercent(report.lost / Math.max(1, report.calls)),
    report.succeeded === 0 ? "-" : formatDuration(report.doneAtMs),
  ];
}

const CSV_HEAD = [
  "strategy",
  "callsEach",
  "peakAfter",
  "windowMs",
  "succeeded",
  "lost",
  "doneAtMs",
  "verdict",
];

function csvRows(sides: readonly Side<Run>[]): readonly CsvRow[] {
  const rows = sides.map(({ choice, result: { report } }) => [
    choice.name,
    report.amplification,
    report.peakAfter.count,
    report.peakAfter.windowMs,
    report.succeeded,
    report.lost,
    report.doneAtMs,
    report.verdict,
  ]);
  return [CSV_HEAD, ...rows];
}
