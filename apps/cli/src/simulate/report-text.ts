/**
 * Report text: a simulated run for people: the verdict first, then the measures that the world has,
 * then load, attempts and goodput over time on one scale, with the trouble marked below.
 */
import type { PhaseDocument, Report, ScenarioDocument } from "@redrive/simulator";
import { formatDuration, peaksOver, ratesOver, reportRows } from "@redrive/simulator/words";
import { plotWidth } from "../print/column-chart.ts";
import {
  type Panel,
  type PanelsOptions,
  panelLines,
  panelsSvg,
  SVG_COLUMNS,
} from "../print/panels.ts";
import { table } from "../print/table.ts";
import type { TextStyle } from "../print/terminal.ts";
import { wrap } from "../print/wrap.ts";

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

/** What labels and the edge of a chart take of a line; a column more or less changes no scale by much. */
const SCALE_WIDTH = 7;

function endOf({ series }: Report): number {
  return Math.max(1, series.attempts.length * series.binMs);
}

/**
 * The scale for charts of that many columns. A closed fleet begins with all its clients at once,
 * which would flatten what follows, so that only what comes after the trouble counts.
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
    panel("offered, first attempts a second", series.offered),
    panel("attempts a second that reach the server", series.attempts),
    panel("succeeded a second", series.succeeded),
  ];
}

/** A track below the time axis: where the time line of the scenario has something in it. */
function phaseLines(
  scenario: ScenarioDocument,
  scale: PanelsOptions,
  { width, paint }: TextStyle,
): readonly string[] {
  const room = plotWidth({ ...scale, width });
  const indent = " ".repeat(width - room);
  return phasesOf(scenario).flatMap(({ kind, atMs, forMs }) => {
    const from = Math.min(room - 1, Math.floor((atMs / scale.endMs) * room));
    const to = Math.min(room, Math.max(from + 1, Math.ceil(((atMs + forMs) / scale.endMs) * room)));
    const mark = `${indent}${" ".repeat(from)}${paint("bad", "▀".repeat(to - from))}`;
    const start = atMs === 0 ? "0" : formatDuration(atMs);
    const words = `${kind.toLowerCase()} from ${start} to ${formatDuration(atMs + forMs)}`;
    if (to + 1 + words.length <= room) return [`${mark} ${words}`];
    const left = Math.max(0, Math.min(from, room - words.length));
    return [mark, `${indent}${" ".repeat(left)}${words}`];
  });
}

function queueLines(report: Report, style: TextStyle): readonly string[] {
  const { queueMs, binMs } = report.series;
  const top = queueMs.reduce((most, each) => Math.max(most, each), 0);
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
