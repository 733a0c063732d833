/** Report rows: the measures of a simulated run as rows of text, and its series as rows for export. */
import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import type { CsvRow } from "./export.ts";
import type { Report } from "./worlds/report.ts";

/** Measure, value and explanation, for the measures that the world has. */
export function reportRows(report: Report): readonly (readonly string[])[] {
  const { calls, peak, peakAfter, latencyMs, recoveryMs, coverage } = report;
  const share = (count: number) =>
    calls === 0 ? "" : `${formatPercent(count / calls)} of the calls`;
  return [
    ["calls", formatInteger(calls), "made by clients"],
    ["attempts", formatInteger(report.attempts), `${formatNumber(report.amplification)} per call`],
    ["succeeded", formatInteger(report.succeeded), share(report.succeeded)],
    [
      "lost",
      formatInteger(report.lost),
      [share(report.lost), reasonsOf(report)].filter(Boolean).join(": "),
    ],
    ...(report.unfinished > 0
      ? [["unfinished", formatInteger(report.unfinished), "when the run ended"]]
      : []),
    [
      "peak",
      formatInteger(peak.count),
      `within ${formatDuration(peak.windowMs)} at ${formatDuration(peak.atMs)}`,
    ],
    ...(recoveryMs === undefined
      ? []
      : [
          [
            "peak after",
            formatInteger(peakAfter.count),
            `within ${formatDuration(peakAfter.windowMs)} at ${formatDuration(peakAfter.atMs)}`,
          ],
          [
            "recovers",
            recoveryMs === null ? "never" : formatDuration(recoveryMs),
            "after the last phase",
          ],
        ]),
    ["latency p50", formatDuration(latencyMs.p50), "of calls that succeeded, waits included"],
    ["latency p99", formatDuration(latencyMs.p99), `longest ${formatDuration(latencyMs.max)}`],
    ...(report.meanWaitMs > 0
      ? [["mean wait", formatDuration(report.meanWaitMs), "sum of all waits of a call"]]
      : []),
    ["fairness", formatNumber(report.fairness), "between clients, 1 is equal (Jain)"],
    ...(coverage === undefined
      ? []
      : [["coverage", formatPercent(coverage), "of the calls outlast the outage"]]),
    ...queueRows(report),
    ["done at", formatDuration(report.doneAtMs), "when the last call ended"],
  ];
}

function queueRows({ duplicateShare, deadLetterShare }: Report): string[][] {
  if (duplicateShare === undefined || deadLetterShare === undefined) return [];
  return [
    ["duplicates", formatPercent(duplicateShare), "of the runs repeated finished work"],
    ["dead letters", formatPercent(deadLetterShare), "of the messages"],
  ];
}

const REASONS: Readonly<Record<string, string>> = {
  attempts: "out of attempts",
  budget: "out of time",
  "retry-budget": "out of retry budget",
  receives: "received too often",
};

function reasonsOf({ reasons, lost }: Report): string {
  if (lost === 0) return "";
  return Object.entries(reasons)
    .filter(([, count]) => count > 0)
    .map(
      ([reason, count]) =>
        `${formatInteger(count)} ${REASONS[reason] ?? reason.replaceAll("-", " ")}`,
    )
    .join(", ");
}

/** All series, one row per bin. The first row names the columns. */
export function seriesRows({ series }: Report): readonly CsvRow[] {
  const head = ["atMs", "offered", "attempts", "succeeded", "failed", "queueMs"];
  const rows = Array.from(series.attempts, (attempts, bin) => [
    bin * series.binMs,
    series.offered[bin],
    attempts,
    series.succeeded[bin],
    series.failed[bin],
    series.queueMs[bin],
  ]);
  return [head, ...rows];
}
