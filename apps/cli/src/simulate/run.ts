/**
 * `redrive sim run` and `redrive sim ladder`: simulate one scenario, built-in or from a file, or
 * the ladder of mitigations, and show the verdict, the measures, and what happens over time.
 */
import {
  formatDuration,
  formatNumber,
  formatPercent,
  isObject,
  POLICY_FIELDS,
  quote,
  RedriveError,
} from "@redrive/core";
import {
  type PhaseDocument,
  type Report,
  type ScenarioDocument,
  scenarios,
  simulate,
} from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import { peaksOver, ratesOver, reportRows, seriesRows } from "@redrive/simulator/text";
import type { Command } from "commander";
import {
  type Panel,
  type PanelsOptions,
  panelLines,
  panelsSvg,
  plotWidth,
  SVG_COLUMNS,
} from "../terminal/charts.ts";
import { readJson, withFileName } from "../terminal/documents.ts";
import { addExamples, addSeedFlag, didYouMean } from "../terminal/flags.ts";
import { addPolicyFlags, choosePolicy, type PolicyFlags } from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  jsonLines,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { mapWithStatus, withStatus } from "../terminal/progress.ts";
import { table } from "../terminal/table.ts";
import { type Terminal, type TextStyle, wrap } from "../terminal/terminal.ts";

interface RunFlags extends OutputOptions, Pick<PolicyFlags, "preset" | "policyFile"> {
  readonly list?: boolean;
  readonly document?: boolean;
  readonly seed: Seed;
}

export function addRun(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("run [scenario]")
    .description("Simulate a scenario: a built-in one by name, or a JSON file.");
  command.option("--list", "list the built-in scenarios");
  command.option("--document", "print the scenario as JSON instead of simulating it");
  addPolicyFlags(command);
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive sim run --list",
    "redrive sim run open-unbounded --seed 7",
    "redrive sim run metastable --preset payment",
    "redrive sim run failover --document > mine.json && redrive sim run mine.json",
  );
  command.action((name: string | undefined, flags: RunFlags) =>
    presentResult(terminal, flags, () => presentRun(terminal, name, flags)),
  );
}

function presentRun(terminal: Terminal, name: string | undefined, flags: RunFlags): Presentation {
  if (flags.list) return presentList();
  if (name === undefined) {
    const text = "no scenario given: pass a name or a file; --list shows the built-in names";
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const scenario = withPolicy(findScenario(name), flags);
  if (flags.document) return { json: scenario, text: () => jsonLines(scenario) };
  const { seed } = flags;
  const report = withStatus(terminal, name, (onProgress) =>
    withFileName(name, () => simulate(scenario, { seed, ...(onProgress && { onProgress }) })),
  );
  return presentReport(scenario, report, scenario === scenarios[name] ? name : scenario);
}

/** The policy of the caller of the last server, which the faults of a scenario usually affect. */
function withPolicy(scenario: ScenarioDocument, flags: RunFlags): ScenarioDocument {
  if (flags.preset === undefined && flags.policyFile === undefined) return scenario;
  const { document: policy, guards } = choosePolicy(flags);
  if (scenario.world === "CONTENTION" || scenario.world === "QUEUE") return { ...scenario, policy };
  const { tiers = [{}] } = scenario;
  const last = tiers.at(-1) ?? {};
  const destination = { ...last.destination, ...guards, policy };
  return { ...scenario, tiers: [...tiers.slice(0, -1), { ...last, destination }] };
}

function presentReport(
  scenario: ScenarioDocument,
  report: Report,
  shared: ScenarioDocument | string,
): Presentation {
  return {
    seed: report.seed,
    json: report,
    text: (style) => reportText(scenario, report, style),
    csv: () => [...seriesRows(report)],
    svg: () => reportSvg(scenario, report),
    run: { view: "system", seed: report.seed, scenarios: [shared] },
  };
}

function presentList(): Presentation {
  const all = Object.values(scenarios);
  const rows = all.map(({ name = "", description = "" }) => [name, description]);
  return {
    json: { scenarios: all },
    text: (style) =>
      table([{ head: "scenario" }, { head: "what it shows", wraps: true }], rows, style),
    csv: () => [["scenario", "description"], ...rows],
  };
}

/** Finds a built-in scenario, or reads a file if the name looks like a path. */
function findScenario(name: string): ScenarioDocument {
  const shipped = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (shipped !== undefined) return shipped;
  if (/[./\\]|^-$/u.test(name)) return scenarioOf(readJson(name), name);
  const hint = didYouMean(name, Object.keys(scenarios)) || " List all with: redrive sim run --list";
  throw new RedriveError("INVALID_ARGUMENT", `unknown scenario ${quote(name)}.${hint}`);
}

/** Refuses a policy or destination document, and says which commands take it. */
function scenarioOf(read: unknown, file: string): ScenarioDocument {
  const fields = isObject(read) ? Object.keys(read) : [];
  const has = (names: ReadonlySet<string>) => fields.some((field) => names.has(field));
  if (has(ONLY_IN_SCENARIOS) || !has(ONLY_IN_POLICIES)) return read as ScenarioDocument;
  const commands = `\`redrive sim failover --policy-file ${file}\`, or \`redrive sim run NAME --policy-file ${file}\` with a built-in scenario`;
  const message = `${quote(file)} is a policy, not a scenario: use ${commands}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

const ONLY_IN_SCENARIOS: ReadonlySet<string> = new Set(["clients", "world", "tiers", "timeline"]);

/** Also the field of a destination document. Scenarios have a description, too. */
const ONLY_IN_POLICIES: ReadonlySet<string> = new Set(
  ["policy", ...Object.keys(POLICY_FIELDS)].filter((field) => field !== "description"),
);

// Report text: formats the report of a simulation: the verdict, the measures, then load, attempts
// and goodput over time on one scale, with the phases of the scenario marked below.

export function reportText(
  scenario: ScenarioDocument,
  report: Report,
  style: TextStyle,
): readonly string[] {
  const { paint, width } = style;
  const scale = scaleOf(scenario, report, width - SCALE_WIDTH);
  const about = scenario.description === undefined ? "" : `: ${scenario.description}`;
  return [
    ...wrap(`${report.scenario}${about}`, width),
    "",
    ...wrap(report.verdict, width).map((line) => paint("strong", line)),
    "",
    ...table(
      [{ head: "" }, { head: "", align: "right" }, { head: "", wraps: true }],
      reportRows(report),
      style,
    ),
    "",
    ...panelLines(panelsOf(report), scale, style),
    ...phaseLines(scenario, scale, style),
    ...queueLines(report, style),
  ];
}

/** Approximate width of a chart's labels and edge. The scale does not need the exact number of columns. */
const SCALE_WIDTH = 7;

function endOf({ series }: Report): number {
  return Math.max(1, series.attempts.length * series.binMs);
}

/**
 * The scale for charts with this many columns. In a closed fleet all clients start at once, which
 * would flatten the rest of the chart, so only the time after the last phase counts.
 */
function scaleOf(scenario: ScenarioDocument, report: Report, columns: number): PanelsOptions {
  const endMs = endOf(report);
  const { attempts, offered, binMs } = report.series;
  const from =
    report.engine === "fleet" ? Math.floor((lastPhaseEnd(scenario) / endMs) * columns) : 0;
  const lanes = [attempts, offered].map((lane) => ratesOver(lane, binMs, endMs, columns));
  const top = Math.max(0, ...lanes.flatMap((lane) => lane.slice(from)));
  return { top: top > 0 ? top : Math.max(1, ...lanes.flat()), endMs, height: 4 };
}

function phasesOf(scenario: ScenarioDocument): readonly PhaseDocument[] {
  return "timeline" in scenario ? (scenario.timeline ?? []) : [];
}

function lastPhaseEnd(scenario: ScenarioDocument): number {
  return Math.max(0, ...phasesOf(scenario).map(({ atMs, forMs }) => atMs + forMs));
}

function panelsOf(report: Report): readonly Panel[] {
  const { series } = report;
  const panel = (title: string, lane: Float64Array): Panel => ({
    title,
    values: (columns) => ratesOver(lane, series.binMs, endOf(report), columns),
  });
  return [
    panel("offered load, first attempts per second", series.offered),
    panel("attempts per second that reach the server", series.attempts),
    panel("successes per second", series.succeeded),
  ];
}

/** Marks the phases of the scenario's timeline below the time axis. */
function phaseLines(
  scenario: ScenarioDocument,
  scale: PanelsOptions,
  { width, paint }: TextStyle,
): readonly string[] {
  const columns = plotWidth({ ...scale, width });
  const indent = " ".repeat(width - columns);
  return phasesOf(scenario).flatMap(({ kind, atMs, forMs }) => {
    const from = Math.min(columns - 1, Math.floor((atMs / scale.endMs) * columns));
    const to = Math.min(
      columns,
      Math.max(from + 1, Math.ceil(((atMs + forMs) / scale.endMs) * columns)),
    );
    const mark = `${indent}${" ".repeat(from)}${paint("bad", "▀".repeat(to - from))}`;
    const start = atMs === 0 ? "0" : formatDuration(atMs);
    const label = `${kind.toLowerCase()} from ${start} to ${formatDuration(atMs + forMs)}`;
    if (to + 1 + label.length <= columns) return [`${mark} ${label}`];
    const left = Math.max(0, Math.min(from, columns - label.length));
    return [mark, `${indent}${" ".repeat(left)}${label}`];
  });
}

function queueLines(report: Report, style: TextStyle): readonly string[] {
  const { queueMs, binMs } = report.series;
  const top = queueMs.reduce((max, each) => Math.max(max, each), 0);
  if (top === 0) return [];
  const endMs = endOf(report);
  const panel: Panel = {
    title: "longest wait in the server's queue",
    values: (columns) => peaksOver(queueMs, binMs, endMs, columns),
  };
  return ["", ...panelLines([panel], { top, endMs, height: 3, format: formatDuration }, style)];
}

export function reportSvg(scenario: ScenarioDocument, report: Report): string {
  return panelsSvg(
    `${report.scenario}: ${report.verdict}`,
    panelsOf(report),
    scaleOf(scenario, report, SVG_COLUMNS),
  );
}

// `redrive sim ladder`: simulates the same outage several times and adds one mitigation each time,
// which shows how much each one helps.

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

function presentLadder(terminal: Terminal, { seed }: LadderFlags): Presentation {
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
    csv: () => ladderRows(rungs),
    svg: () => panelsSvg(LADDER_INTRO, rungs.map(rungPanel), ladderScale(rungs)),
    run: { view: "system", seed, scenarios: names },
  };
}

const LADDER_INTRO =
  "Two layers that both retry call a server whose capacity drops to a fifth from 20 s to 30 s.";

/** The chart of a rung: calls served per second. */
function rungPanel({ report: { scenario, series, verdict } }: Rung): Panel {
  const { endMs } = ladderEnd(series);
  return {
    title: `${scenario}: ${verdict}`,
    values: (columns) => ratesOver(series.succeeded, series.binMs, endMs, columns),
  };
}

function ladderEnd({ succeeded, binMs }: Report["series"]) {
  return { endMs: Math.max(1, succeeded.length * binMs) };
}

function ladderScale(rungs: readonly Rung[]): PanelsOptions {
  const all = rungs.map(({ report }) => report.series);
  return {
    top: Math.max(1, ...all.map(peakPerSecond)),
    endMs: Math.max(...all.map((series) => ladderEnd(series).endMs)),
    height: 4,
  };
}

function peakPerSecond({ succeeded, binMs }: Report["series"]): number {
  return (succeeded.reduce((max, count) => Math.max(max, count), 0) * 1000) / binMs;
}

const LADDER_COLUMNS = [
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
  return [...wrap(LADDER_INTRO, style.width), "", ...table(LADDER_COLUMNS, rows, style)];
}

function recovery({ recoveryMs }: Report) {
  if (recoveryMs === null || recoveryMs === undefined) {
    return { text: "never", tone: "bad" } as const;
  }
  return recoveryMs === 0 ? "at once" : `after ${formatDuration(recoveryMs)}`;
}

function ladderRows(rungs: readonly Rung[]): CsvRow[] {
  const rows = rungs.map(({ report }) => [
    report.scenario,
    report.amplification,
    report.goodput,
    report.recoveryMs ?? "never",
    report.verdict,
  ]);
  return [["rung", "attemptsEach", "served", "recoveryMs", "verdict"], ...rows];
}
