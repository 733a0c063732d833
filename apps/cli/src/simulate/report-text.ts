/**
 * Report text: formats the report of a simulation: the verdict, the measures, then load, attempts
 * and goodput over time on one scale, with the phases of the scenario marked below.
 */

import { formatDuration } from "@redrive/core";
import type { PhaseDocument, Report, ScenarioDocument } from "@redrive/simulator";
import { peaksOver, ratesOver, reportRows } from "@redrive/simulator/text";
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
