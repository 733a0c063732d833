/**
 * `redrive sim lab`: compares published results with ours, within a tolerance. A row that is known
 * not to reproduce says why; any other deviation sets exit code 1.
 */

import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import {
  type Clock,
  formatCount,
  formatNumber,
  formatSignificant,
  quote,
  RedriveError,
  systemClock,
} from "@redrive/core";
import { type LabReport, type LabRow, labs } from "@redrive/simulator";
import {
  deviationOf,
  formatTolerance,
  isNumberRow,
  labRows,
  rowVerdict,
} from "@redrive/simulator/text";
import type { Command } from "commander";
import { escapeXml, label, MARGIN, rect, round, svgDocument, WIDTH } from "../terminal/charts.ts";
import { addExamples, addSeedFlag, didYouMean, numberFlag } from "../terminal/flags.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { createProgress } from "../terminal/progress.ts";
import { type Cell, table } from "../terminal/table.ts";
import { type Terminal, type TextStyle, wrap, wrapWithPrefix } from "../terminal/terminal.ts";

interface LabFlags extends OutputOptions {
  readonly list?: boolean;
  readonly effort: number;
  readonly seed: Seed;
}

export function addLab(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("lab [ids...]")
    .description("Reproduce published results. Exits with 1 if a result is outside its tolerance.");
  command.option("--list", "list the labs");
  command.option(
    "--effort <share>",
    "share of the runs to make; less than 1 is faster and less exact",
    numberFlag(0.01, 1),
    1,
  );
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(command, "redrive sim lab", "redrive sim lab occ coverage --seed 7");
  command.action((ids: string[], flags: LabFlags) =>
    presentResult(terminal, flags, () =>
      flags.list ? presentList() : presentLabs(terminal, systemClock, ids, flags, runLabsOnThreads),
    ),
  );
}

export async function presentLabs(
  terminal: Terminal,
  clock: Clock,
  ids: readonly string[],
  flags: LabFlags,
  runLabs: RunLabs,
): Promise<Presentation> {
  const { seed, effort } = flags;
  const chosen = chooseLabs(ids);
  const tasks = chosen.map((id) => ({ id, seed, effort }));
  const watcher = createWatcher(terminal, clock, tasks.length);
  const reports = await runLabs(tasks, watcher).finally(watcher.stop);
  const ok = reports.every((report) => report.ok);
  return {
    seed,
    json: { seed, effort, ok, labs: reports },
    text: (style) => labText(reports, effort, style),
    csv: () => labRows(reports),
    svg: () => labSvg(reports),
    run: { view: "labs", seed, ids: chosen },
    exitCode: ok ? OK : FAILED,
  };
}

function chooseLabs(ids: readonly string[]): readonly string[] {
  const known = labs.map(({ id }) => id);
  for (const id of ids) {
    if (known.includes(id)) continue;
    const hint = didYouMean(id, known) || ` Labs: ${known.join(", ")}.`;
    throw new RedriveError("INVALID_ARGUMENT", `unknown lab ${quote(id)}.${hint}`);
  }
  return ids.length === 0 ? known : [...new Set(ids)];
}

/** Interval at which the progress line is redrawn. */
const TICK_MS = 250;

/** Draws a progress line on a terminal; else prints one line per lab. */
function createWatcher(
  terminal: Terminal,
  clock: Clock,
  total: number,
): LabWatcher & { stop(): void } {
  const startedMs = clock.monotonicMs();
  const progress = createProgress(terminal.printError, {
    width: terminal.width,
    isShown: terminal.showsProgress,
  });
  const busy = new Set<string>();
  let done = 0;
  const elapsedMs = () => clock.monotonicMs() - startedMs;
  const draw = () =>
    progress.draw({ done, total, what: [...busy].join(", "), elapsedMs: elapsedMs() });
  let cancel = clock.alarm(TICK_MS, function tick() {
    draw();
    cancel = clock.alarm(TICK_MS, tick);
  });
  return {
    started: ({ id }: LabTask) => void busy.add(id),
    finished({ id, ok }) {
      busy.delete(id);
      done++;
      if (!terminal.showsProgress)
        terminal.printError(`lab ${id}: ${ok ? "ok" : "missed"}, ${done} of ${total}\n`);
    },
    stop() {
      cancel();
      progress.clear();
    },
  };
}

function labSvg(reports: readonly LabReport[]): string {
  const lines = reports.map(({ id, rows }) => ({
    label: id,
    dots: rows.filter(isNumberRow).map((row) => ({
      at: deviationOf(row),
      isBad: isMissed(row),
      text: `${row.what}: published ${formatSignificant(row.published)}, ours ${formatSignificant(row.ours)}`,
    })),
  }));
  return svgDots("Deviation of our results from the published values, in tolerances", lines);
}

function isMissed(row: LabRow): boolean {
  return rowVerdict(row) === "missed";
}

function labText(
  reports: readonly LabReport[],
  effort: number,
  style: TextStyle,
): readonly string[] {
  const rows = reports.flatMap((report) => report.rows);
  const missed = rows.filter(isMissed).length;
  const differ = rows.filter((row) => row.deviation !== undefined).length;
  const passed =
    differ === 0
      ? "all within tolerance"
      : `${rows.length - differ} within tolerance, ${differ} differ for a known reason`;
  const summary = missed === 0 ? passed : `${missed} missed`;
  const effortNote =
    effort < 1 && missed > 0
      ? ` This run made only ${formatNumber(effort * 100)} % of the simulations.`
      : "";
  return [
    ...reports.flatMap((report) => [...reportLines(report, style), ""]),
    style.paint(
      missed === 0 ? "good" : "bad",
      `${formatCount(rows.length, "result")}, ${summary}.${effortNote}`,
    ),
  ];
}

const COLUMNS = [
  { head: "what", wraps: true },
  { head: "published", align: "right" },
  { head: "ours", align: "right" },
  { head: "tolerance" },
  { head: "ok" },
] as const;

function reportLines(report: LabReport, style: TextStyle): readonly string[] {
  const lesson = labs.find(({ id }) => id === report.id)?.lesson ?? "";
  return [
    ...wrap(`${report.id}: ${report.title}`, style.width).map((line) =>
      style.paint("strong", line),
    ),
    ...wrapWithPrefix("source  ", report.source, style.width).map((line) =>
      style.paint("faint", line),
    ),
    ...wrapWithPrefix("lesson  ", lesson, style.width),
    ...table(COLUMNS, report.rows.filter((row) => !isLong(row)).map(rowCells), style),
    ...report.rows.filter(isLong).flatMap((row) => longLines(row, style)),
    ...deviationLines(report, style),
  ];
}

/** Lists the rows that do not reproduce, grouped by reason. */
function deviationLines({ rows }: LabReport, style: TextStyle): readonly string[] {
  const reasons = new Map<string, string[]>();
  for (const { what, deviation } of rows) {
    if (deviation === undefined) continue;
    reasons.set(deviation, [...(reasons.get(deviation) ?? []), what]);
  }
  return [...reasons].flatMap(([why, whats]) =>
    wrapWithPrefix("differs  ", `${whats.join("; ")}: ${why}.`, style.width),
  );
}

/** Longer texts would make the number columns too wide. */
const MAX_CELL = 20;

function isLong({ published }: LabRow): boolean {
  return typeof published === "string" && published.length > MAX_CELL;
}

function longLines({ what, published, ours, ok }: LabRow, style: TextStyle): readonly string[] {
  const { width, paint } = style;
  if (ok) return wrapWithPrefix("", `${what}: ${ours}, as published, ok`, width);
  const text = `${what}: published ${published}, ours ${ours}  MISSED`;
  return wrapWithPrefix("", text, width).map((line) => paint("bad", line));
}

function rowCells(row: LabRow): readonly Cell[] {
  const core = row.core === undefined ? "" : ` (core's formula: ${formatSignificant(row.core)})`;
  return [
    `${row.what}${core}`,
    formatValue(row.published),
    formatValue(row.ours),
    formatTolerance(row),
    verdictCell(row),
  ];
}

function verdictCell(row: LabRow): Cell {
  if (row.ok) return { text: "ok", tone: "good" };
  return isMissed(row) ? { text: "MISSED", tone: "bad" } : { text: "differs", tone: "warn" };
}

function formatValue(value: number | string): string {
  return typeof value === "string" ? value : formatSignificant(value);
}

function presentList(): Presentation {
  const rows = labs.map(({ id, title, source }) => [id, `${title}. ${source}`]);
  return {
    json: { labs: labs.map(({ id, title, source, lesson }) => ({ id, title, source, lesson })) },
    text: (style) =>
      table([{ head: "lab" }, { head: "title and source", wraps: true }], rows, style),
    csv: () => [
      ["lab", "title", "source"],
      ...labs.map(({ id, title, source }) => [id, title, source]),
    ],
  };
}

// Lab pool: runs labs on several threads. Each lab has its own random stream, so the results do not
// depend on the order in which labs finish.

export interface LabTask {
  readonly id: string;
  readonly seed: Seed;
  /** Share of the full number of runs. Greater than 0, at most 1. */
  readonly effort: number;
}

/** Called when a lab starts or finishes. */
interface LabWatcher {
  started(task: LabTask): void;
  finished(report: LabReport): void;
}

type RunLabs = (tasks: readonly LabTask[], watcher: LabWatcher) => Promise<readonly LabReport[]>;

const MAX_THREADS = 4;

/** Returns the reports in the order of the tasks. Rejects if a lab fails. */
const runLabsOnThreads: RunLabs = async (tasks, watcher) => {
  const reports: LabReport[] = [];
  const waiting = tasks.map((task, index) => ({ task, index }));
  const threads = Math.min(MAX_THREADS, availableParallelism(), tasks.length);
  const work = async () => {
    const worker = new Worker(new URL("./lab-worker.js", import.meta.url));
    try {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        watcher.started(next.task);
        worker.postMessage(next.task);
        const [report] = (await once(worker, "message")) as [LabReport];
        reports[next.index] = report;
        watcher.finished(report);
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: threads }, work));
  return reports;
};

// SVG dots: groups of results on one scale that shows how far each is from its expected value.

interface SvgDot {
  /** 0 is the expected value; -1 and 1 are the bounds. Values far outside are drawn at the edge. */
  readonly at: number;
  readonly isBad: boolean;
  /** Tooltip in a browser. */
  readonly text: string;
}

interface SvgLine {
  readonly label: string;
  readonly dots: readonly SvgDot[];
}

const LINE = 26;
const LEFT = 130;
const MAX_OFFSET = 1.4;
const TICKS = [
  [-1, "lowest allowed"],
  [0, "published"],
  [1, "highest allowed"],
] as const;

function svgDots(title: string, lines: readonly SvgLine[]): string {
  const x = (at: number) => {
    const bounded = Math.min(MAX_OFFSET, Math.max(-MAX_OFFSET, at));
    return LEFT + ((bounded + MAX_OFFSET) / (2 * MAX_OFFSET)) * (WIDTH - LEFT - MARGIN);
  };
  const top = MARGIN + 20;
  const bottom = top + lines.length * LINE;
  const ticks = TICKS.flatMap(([at, text]) => [
    `<line x1="${round(x(at))}" x2="${round(x(at))}" y1="${top}" y2="${bottom + 4}" class="rule"/>`,
    label(x(at), bottom + 20, text, "faint middle"),
  ]);
  const drawn = lines.flatMap((line, index) => {
    const y = top + (index + 0.5) * LINE;
    return [
      label(LEFT - 14, y + 4, line.label, "right"),
      ...line.dots.map((dot) => dotElement(x(dot.at), y, dot)),
    ];
  });
  const band = rect(x(-1), top, x(1) - x(-1), bottom - top, "range");
  const body = [label(MARGIN, MARGIN, title), band, ...ticks, ...drawn];
  return svgDocument(title, bottom + MARGIN + 12, body);
}

function dotElement(x: number, y: number, { isBad, text }: SvgDot): string {
  const title = `<title>${escapeXml(text)}</title>`;
  return `<circle cx="${round(x)}" cy="${round(y)}" r="4" class="dot${isBad ? " bad" : ""}">${title}</circle>`;
}
