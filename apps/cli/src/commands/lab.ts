/**
 * `redrive sim lab`: published results against our own, with the tolerance and where it comes from. A
 * row that is known not to reproduce says why; any other miss exits with 1.
 */
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
  isNumberRow,
  labRows,
  rowVerdict,
  formatTolerance,
} from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, addSeed, didYouMean, numberFlag } from "../flags.ts";
import { type LabTask, type LabWatcher, type RunLabs, runLabsOnThreads } from "../lab-pool.ts";
import {
  addOutput,
  FAILED,
  finish,
  OK,
  type OutputOptions,
  type Presentation,
  type Seed,
} from "../presentation.ts";
import type { Look, Screen } from "../screen.ts";
import { svgDots } from "../svg-dots.ts";
import { progressOn } from "../terminal/progress.ts";
import { type Cell, table } from "../terminal/table.ts";
import { wrap, wrapAfter } from "../terminal/wrap.ts";

interface LabFlags extends OutputOptions {
  readonly list?: boolean;
  readonly effort: number;
  readonly seed: Seed;
}

export function addLab(parent: Command, screen: Screen): void {
  const command = parent
    .command("lab [ids...]")
    .description("reproduce published results: published, ours, tolerance; exits 1 on a miss");
  command.option("--list", "the labs there are");
  command.option("--effort <share>", "share of the runs, for a quick look", numberFlag(0.01, 1), 1);
  addSeed(command);
  addOutput(command, "json", "csv", "svg", "url");
  addExamples(command, "redrive sim lab", "redrive sim lab occ coverage --seed 7");
  command.action((ids: string[], flags: LabFlags) =>
    finish(screen, flags, () =>
      flags.list ? presentList() : presentLabs(screen, systemClock, ids, flags, runLabsOnThreads),
    ),
  );
}

export async function presentLabs(
  screen: Screen,
  clock: Clock,
  ids: readonly string[],
  flags: LabFlags,
  runLabs: RunLabs,
): Promise<Presentation> {
  const { seed, effort } = flags;
  const chosen = chooseLabs(ids);
  const tasks = chosen.map((id) => ({ id, seed, effort }));
  const watcher = watch(screen, clock, tasks.length);
  const reports = await runLabs(tasks, watcher).finally(watcher.stop);
  const ok = reports.every((report) => report.ok);
  return {
    seed,
    json: { seed, effort, ok, labs: reports },
    text: (look) => labText(reports, effort, look),
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

/** How often the progress line is drawn. */
const TICK_MS = 250;

/** A line that moves for those who look on, a line a lab for logs. */
function watch(screen: Screen, clock: Clock, total: number): LabWatcher & { stop(): void } {
  const startedMs = clock.monotonicMs();
  const progress = progressOn(screen.note, { width: screen.width, isShown: screen.isWatched });
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
    began: ({ id }: LabTask) => void busy.add(id),
    ended({ id, ok }) {
      busy.delete(id);
      done++;
      if (!screen.isWatched)
        screen.note(`lab ${id}: ${ok ? "ok" : "missed"}, ${done} of ${total}\n`);
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
  return svgDots("How far ours lies from the published value, in tolerances", lines);
}

function isMissed(row: LabRow): boolean {
  return rowVerdict(row) === "missed";
}

function labText(reports: readonly LabReport[], effort: number, look: Look): readonly string[] {
  const rows = reports.flatMap((report) => report.rows);
  const missed = rows.filter(isMissed).length;
  const differ = rows.filter((row) => row.deviation !== undefined).length;
  const kept =
    differ === 0
      ? "all within tolerance"
      : `${rows.length - differ} within tolerance, ${differ} differ and say why`;
  const ends = missed === 0 ? kept : `${missed} missed`;
  const hasty =
    effort < 1 && missed > 0 ? ` Only ${formatNumber(effort * 100)} % of the runs were made.` : "";
  return [
    ...reports.flatMap((report) => [...reportLines(report, look), ""]),
    look.paint(
      missed === 0 ? "good" : "bad",
      `${formatCount(rows.length, "result")}, ${ends}.${hasty}`,
    ),
  ];
}

const COLUMNS = [
  { head: "what", gives: true },
  { head: "published", align: "right" },
  { head: "ours", align: "right" },
  { head: "tolerance" },
  { head: "ok" },
] as const;

function reportLines(report: LabReport, look: Look): readonly string[] {
  const lesson = labs.find(({ id }) => id === report.id)?.lesson ?? "";
  return [
    ...wrap(`${report.id}: ${report.title}`, look.width).map((line) => look.paint("strong", line)),
    ...wrapAfter("source  ", report.source, look.width).map((line) => look.paint("faint", line)),
    ...wrapAfter("lesson  ", lesson, look.width),
    ...table(COLUMNS, report.rows.filter((row) => !isLong(row)).map(cellsOf), look),
    ...report.rows.filter(isLong).flatMap((row) => longLines(row, look)),
    ...deviationLines(report, look),
  ];
}

/** Does not reproduce: what, and why. Rows that differ for one reason share its line. */
function deviationLines({ rows }: LabReport, look: Look): readonly string[] {
  const reasons = new Map<string, string[]>();
  for (const { what, deviation } of rows) {
    if (deviation === undefined) continue;
    reasons.set(deviation, [...(reasons.get(deviation) ?? []), what]);
  }
  return [...reasons].flatMap(([why, whats]) =>
    wrapAfter("differs  ", `${whats.join("; ")}: ${why}.`, look.width),
  );
}

/** Longer words would push the numbers of the other rows apart. */
const MAX_CELL = 20;

function isLong({ published }: LabRow): boolean {
  return typeof published === "string" && published.length > MAX_CELL;
}

function longLines({ what, published, ours, ok }: LabRow, look: Look): readonly string[] {
  const { width, paint } = look;
  if (ok) return wrapAfter("", `${what}: ${ours}, as published, ok`, width);
  const text = `${what}: published ${published}, ours ${ours}  MISSED`;
  return wrapAfter("", text, width).map((line) => paint("bad", line));
}

function cellsOf(row: LabRow): readonly Cell[] {
  const core =
    row.core === undefined ? "" : ` (core's own formula: ${formatSignificant(row.core)})`;
  return [
    `${row.what}${core}`,
    spell(row.published),
    spell(row.ours),
    formatTolerance(row),
    endCell(row),
  ];
}

function endCell(row: LabRow): Cell {
  if (row.ok) return { text: "ok", tone: "good" };
  return isMissed(row) ? { text: "MISSED", tone: "bad" } : { text: "differs", tone: "warn" };
}

function spell(value: number | string): string {
  return typeof value === "string" ? value : formatSignificant(value);
}

function presentList(): Presentation {
  const rows = labs.map(({ id, title, source }) => [id, `${title}. ${source}`]);
  return {
    json: { labs: labs.map(({ id, title, source, lesson }) => ({ id, title, source, lesson })) },
    text: (look) =>
      table([{ head: "lab" }, { head: "what, and who published it", gives: true }], rows, look),
    csv: () => [
      ["lab", "title", "source"],
      ...labs.map(({ id, title, source }) => [id, title, source]),
    ],
  };
}
