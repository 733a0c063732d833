/**
 * `redrive sim herd` and `redrive sim failover`: compare retry strategies on the same clients and
 * seed, with one scale. They share the flags, the charts, the table, the CSV, the SVG and the link.
 */
import {
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  type PolicyDocument,
  quote,
  RedriveError,
} from "@redrive/core";
import {
  assertStrategyCount,
  type CallsDocument,
  type Herd,
  herd,
  MAX_STRATEGIES,
  type OnProgress,
  type Report,
  scenarios,
  simulate,
  strategyDocument,
  strategyNames,
} from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import type { SharedRun } from "@redrive/simulator/share";
import { herdRows, peaksOver, policySummary } from "@redrive/simulator/text";
import { type Command, Option } from "commander";
import { comparisonLines, type Panel, type PanelsOptions, panelsSvg } from "../terminal/charts.ts";
import {
  addExamples,
  addOutageFlag,
  addSeedFlag,
  didYouMean,
  durationFlag,
  integerFlag,
} from "../terminal/flags.ts";
import {
  addCurveFlags,
  curveDocument,
  ignoredGuards,
  namedPolicy,
  type PolicyChoice,
  type PolicyFlags,
  policyFromFile,
  policyNames,
} from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { mapWithStatus } from "../terminal/progress.ts";
import { type Column, table } from "../terminal/table.ts";
import type { Terminal } from "../terminal/terminal.ts";

// `redrive sim herd`: shows when the retries of many clients arrive if all fail at the same instant
// and every retry fails too. All strategies share one scale, one window and one seed.

interface HerdFlags extends ComparisonFlags {
  readonly window?: number;
}

/** The model of the herd lab: five retries, and a cap of thirty times the base. */
const HERD_DEFAULTS: PolicyDocument = { maxAttempts: 6, initialDelayMs: 100 };
const CAP_FACTOR = 30;

export function addHerd(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("herd")
    .description("Show when retries arrive after many clients fail at the same instant.");
  addClientsFlag(command, "number of clients");
  addComparisonFlags(command, ["none", "full", "decorrelated"]);
  command.option(
    "--window <duration>",
    "width of the window in which arrivals are counted",
    durationFlag,
  );
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive sim herd -N 10000 --compare none,full,decorrelated --seed 7",
    "redrive sim herd --compare full,equal,aws-standard --window 50ms",
  );
  command.action((flags: HerdFlags) =>
    presentResult(terminal, flags, () => presentHerd(terminal, flags)),
  );
}

function presentHerd(terminal: Terminal, flags: HerdFlags): Presentation {
  const { seed, clients } = flags;
  const sides = runHerds(terminal, flags);
  const windowMs = sides[0]?.result.windowMs ?? 1;
  const scale = herdScale(sides);
  const strategies = sides.map(({ choice }) => ({ name: choice.name, policy: choice.shared }));
  const results = sides.map(({ choice: { name, document }, result }) => ({
    name,
    policy: document,
    herd: result,
  }));
  return presentComparison(seed, sides, {
    title: `${formatInteger(clients)} clients fail at once, and every retry fails too; arrivals in windows of ${formatDuration(windowMs)}`,
    scale,
    panelTitle: herdPanelTitle,
    panelValues: ({ arrivals }, columns) => peaksOver(arrivals, windowMs, scale.endMs, columns),
    caption: herdCaption(sides, scale),
    columns: HERD_COLUMNS,
    cells: herdCells,
    json: { seed, clients, windowMs, strategies: results },
    csv: () => herdRows(results.map(({ name, herd: result }) => ({ name, herd: result }))),
    run: { view: "herd", seed, strategies, clients, windowMs },
    notes: ignoredGuards(sides.map(({ choice }) => choice)),
  });
}

/** All strategies use the window of the first: peaks of different windows are not comparable. */
function runHerds(terminal: Terminal, flags: HerdFlags): readonly Side<Herd>[] {
  const { seed, clients } = flags;
  const maxDelayMs = flags.cap ?? CAP_FACTOR * (flags.base ?? HERD_DEFAULTS.initialDelayMs ?? 1);
  let windowMs = flags.window;
  return runSides(terminal, flags, { ...HERD_DEFAULTS, maxDelayMs }, ({ document }) => {
    const options = { clients, seed, ...(windowMs !== undefined && { windowMs }) };
    const result = herd(document, options);
    windowMs = result.windowMs;
    return result;
  });
}

function herdPanelTitle({ result: { peak } }: Side<Herd>): string {
  const share = `${formatPercent(peak.share)} of the clients`;
  return `peak ${formatInteger(peak.count)} (${share}) at ${formatDuration(peak.atMs)}`;
}

/** The end is where the last counted window ends. */
function herdScale(sides: readonly Side<Herd>[]): PanelsOptions {
  const results = sides.map(({ result }) => result);
  const ends = results.map(({ arrivals, windowMs }) => arrivals.length * windowMs);
  return {
    top: Math.max(1, ...results.map(({ peak }) => peak.count)),
    endMs: Math.max(1, ...ends),
    height: 6,
  };
}

function herdCaption(sides: readonly Side<Herd>[], { endMs }: PanelsOptions): string {
  const lastMs = Math.max(...sides.map(({ result }) => result.lastAtMs));
  const beyond =
    lastMs > endMs ? `; later arrivals, up to ${formatDuration(lastMs)}, are not shown` : "";
  return `each column shows its fullest window${beyond}`;
}

const HERD_COLUMNS = [
  { head: "peak", align: "right" },
  { head: "of clients", align: "right" },
  { head: "retries", align: "right" },
  { head: "last at", align: "right" },
] as const;

function herdCells({ peak, retries, lastAtMs }: Herd): readonly string[] {
  return [
    formatInteger(peak.count),
    formatPercent(peak.share),
    formatInteger(retries),
    formatDuration(lastAtMs),
  ];
}

// `redrive sim failover`: compares strategies when a server fails over. Every client has one job,
// and the server is down at first. Shows how long until all jobs are done and how many are lost.

interface FailoverFlags extends ComparisonFlags {
  readonly outage: number;
  readonly capacity?: number;
}

/** As in the built-in scenario `failover`. */
const FAILOVER_DEFAULTS: PolicyDocument = {
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

function presentFailover(terminal: Terminal, flags: FailoverFlags): Presentation {
  const { seed, clients, outage: outageMs } = flags;
  const sides = runSides(terminal, flags, FAILOVER_DEFAULTS, (choice, onProgress) =>
    runFailover(flags, choice, onProgress),
  );
  const capacity = capacityOf(flags);
  const scale = failoverScale(sides, outageMs);
  const strategies = sides.map(({ choice: { name }, result: { report } }) => ({ name, report }));
  return presentComparison(seed, sides, {
    title: `${formatInteger(clients)} clients with one job each; the server is down for ${formatDuration(outageMs)}, then serves ${formatInteger(capacity)} per second`,
    scale,
    panelTitle: ({ result }) => result.report.verdict,
    panelValues: ({ report: { series } }, columns) =>
      peaksOver(series.attempts, series.binMs, scale.endMs, columns),
    caption: failoverCaption(sides),
    columns: failoverColumns(sides),
    cells: failoverCells,
    json: { seed, clients, outageMs, capacityPerSecond: capacity, strategies },
    csv: () => failoverRows(sides),
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

/** The built-in scenario with the given clients, outage, capacity, policy and guards. */
function scenarioFor(
  flags: FailoverFlags,
  { name, document, guards }: PolicyChoice,
): CallsDocument {
  const shipped = scenarios["failover"] as CallsDocument;
  const server = { ...shipped.tiers?.[0]?.server, capacityPerSecond: capacityOf(flags) };
  const { description: _, ...rest } = shipped;
  return {
    ...rest,
    name: `failover-${name}`.replace(/[^a-z0-9-]/gu, "-").slice(0, 64),
    clients: { kind: "CLOSED", count: flags.clients, jobs: 1 },
    tiers: [{ name: "server", destination: { ...guards, policy: document }, server }],
    timeline: [{ kind: "OUTAGE", atMs: 0, forMs: flags.outage }],
  };
}

/** Ignores the outage: all first calls start at 0 and would flatten the rest of the chart. */
function failoverScale(sides: readonly Side<Run>[], outageMs: number): PanelsOptions {
  const endMs = Math.max(1, ...sides.map(({ result }) => result.report.doneAtMs));
  const tops = sides.map(({ result }) => {
    const { attempts, binMs } = result.report.series;
    const after = attempts.subarray(Math.floor(outageMs / binMs));
    return after.reduce((max, count) => Math.max(max, count), 0);
  });
  return { top: Math.max(1, ...tops), endMs, height: 4 };
}

function failoverCaption(sides: readonly Side<Run>[]): string {
  const binMs = sides[0]?.result.report.series.binMs ?? 0;
  return `attempts that reach the server within ${formatDuration(binMs)}; each column shows its maximum; ▲ is above the scale`;
}

function failoverColumns(sides: readonly Side<Run>[]) {
  const windowMs = sides[0]?.result.report.peakAfter.windowMs ?? 0;
  return [
    { head: "calls each", align: "right" },
    { head: `peak after (${formatDuration(windowMs)})`, align: "right" },
    { head: "gave up", align: "right" },
    { head: "all done at", align: "right" },
  ] as const;
}

function failoverCells({ report }: Run): readonly string[] {
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

function failoverRows(sides: readonly Side<Run>[]): readonly CsvRow[] {
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

// What both share: the flags, the simulation of each strategy, and the presentation.

interface ComparisonFlags extends StrategyFlags, OutputOptions {
  readonly clients: number;
  readonly seed: Seed;
}

const DEFAULT_CLIENTS = 10_000;
const MAX_CLIENTS = 2_000_000;

function addClientsFlag(command: Command, text: string): Command {
  const parse = integerFlag(1, MAX_CLIENTS);
  return command.option("-N, --clients <count>", text, parse, DEFAULT_CLIENTS);
}

function addComparisonFlags(command: Command, compare: readonly string[]): Command {
  return addSeedFlag(addCurveFlags(addCompareFlags(command, compare)));
}

/** One strategy and what the simulation of it returned. */
interface Side<Result> {
  readonly choice: PolicyChoice;
  readonly result: Result;
}

/** Simulates the chosen strategies one after the other. */
function runSides<Result>(
  terminal: Terminal,
  flags: ComparisonFlags,
  defaults: PolicyDocument,
  simulate: (choice: PolicyChoice, onProgress: OnProgress | undefined) => Result,
): readonly Side<Result>[] {
  return mapWithStatus(terminal, chooseStrategies(flags, defaults), (choice, onProgress) => ({
    choice,
    result: simulate(choice, onProgress),
  }));
}

/** How to show the sides. The callbacks get one side each. */
interface ComparisonView<Result> {
  readonly title: string;
  readonly scale: PanelsOptions;
  /** The title of a side's chart. */
  readonly panelTitle: (side: Side<Result>) => string;
  readonly panelValues: (result: Result, columns: number) => readonly number[];
  /** Explains the columns of the charts. */
  readonly caption: string;
  /** The columns after "strategy". */
  readonly columns: readonly Column[];
  readonly cells: (result: Result) => readonly string[];
  readonly json: object;
  readonly csv: () => readonly CsvRow[];
  readonly run: SharedRun;
  /** For standard error. Default: none. */
  readonly notes?: readonly string[];
}

function presentComparison<Result>(
  seed: Seed,
  sides: readonly Side<Result>[],
  view: ComparisonView<Result>,
): Presentation {
  const { title, scale, caption, json, csv, run, notes = [] } = view;
  const panels = sides.map((side) => panelOf(side, view));
  const columns = [{ head: "strategy" }, ...view.columns];
  const rows = sides.map(({ choice, result }) => [choice.name, ...view.cells(result)]);
  return {
    seed,
    json,
    text: (style) =>
      comparisonLines({ title, panels, scale, caption, table: table(columns, rows, style) }, style),
    csv,
    svg: () => panelsSvg(title, panels, scale),
    run,
    notes,
  };
}

function panelOf<Result>(side: Side<Result>, view: ComparisonView<Result>): Panel {
  return {
    title: `${side.choice.name}: ${view.panelTitle(side)}`,
    caption: policySummary(side.choice.document),
    values: (columns) => view.panelValues(side.result, columns),
  };
}

// Strategy choice: the policies that a command compares: strategies, presets, catalog entries or a
// file.

interface StrategyFlags extends PolicyFlags {
  readonly compare?: readonly string[];
}

function addCompareFlags(command: Command, fallback: readonly string[]): Command {
  const text = `strategies, presets or catalog entries to compare, at most ${MAX_STRATEGIES}`;
  return command
    .addOption(
      new Option("--compare <list>", text)
        .argParser((list) => list.split(",").map((name) => name.trim()))
        .default(fallback, fallback.join(",")),
    )
    .option("--policy-file <file>", "also compare this policy document; - reads standard input");
}

/** Returns the strategies in the order of `--compare`, then the policy file. */
function chooseStrategies(flags: StrategyFlags, defaults: PolicyDocument): readonly PolicyChoice[] {
  const curve = curveDocument(flags, defaults);
  const named = (flags.compare ?? []).map((name) => strategy(name, curve));
  const chosen = [
    ...named,
    ...(flags.policyFile === undefined ? [] : [policyFromFile(flags.policyFile)]),
  ];
  assertStrategyCount("--compare", chosen.length);
  return chosen;
}

function strategy(name: string, curve: PolicyDocument): PolicyChoice {
  const document = strategyDocument(name, curve);
  if (document !== undefined) return { name, document, guards: {}, shared: document };
  const known = [...strategyNames, ...policyNames()];
  if (known.includes(name)) return namedPolicy(name);
  const hint = didYouMean(name, known) || ` Strategies: ${strategyNames.join(", ")}.`;
  throw new RedriveError("INVALID_ARGUMENT", `--compare: unknown strategy ${quote(name)}.${hint}`);
}
