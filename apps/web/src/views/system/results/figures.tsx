/** Figures: the verdict of a run in one sentence, and its measures, as on the command line. */

import { formatDuration, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import type { Report } from "@redrive/simulator";
import { isUndecided, reportRows } from "@redrive/simulator/text";
import { Stat, Stats } from "../../../components/stat.tsx";
import { countsIn, endOf, faultPeriodOf } from "../chart/columns.ts";
import { isBusy, isStale } from "../state/runs.ts";
import { phases } from "../state/system-store.ts";

export function isBad(report: Report): boolean {
  const isLost = report.recoveryMs === null && !isUndecided(report);
  return isLost || (report.calls > 0 && report.succeeded === 0);
}

export function recoveryText(report: Report): string {
  const { recoveryMs } = report;
  if (recoveryMs === undefined) return "no fault";
  if (isUndecided(report)) return "too short";
  if (recoveryMs === null) return "never";
  return recoveryMs === 0 ? "immediately" : formatDuration(recoveryMs);
}

export function Verdict({ report }: { readonly report: Report }) {
  const tone = isBad(report) ? "verdict bad" : "verdict";
  return (
    <p class={isStale.value ? `${tone} stale` : tone} role="status" aria-busy={isBusy.value}>
      {report.verdict}
    </p>
  );
}

export function RunStats({ report }: { readonly report: Report }) {
  const { peak, latencyMs, calls, lost } = report;
  return (
    <Stats isBusy={isBusy.value} isStale={isStale.value}>
      <Stat
        label="Amplification"
        value={`${formatNumber(report.amplification)} x`}
        note={`${formatInteger(report.attempts)} attempts for ${formatInteger(calls)} calls`}
      />
      <Stat
        label="Peak"
        value={formatInteger(peak.count)}
        note={`attempts within ${formatDuration(peak.windowMs)}, at ${peak.atMs === 0 ? "0" : formatDuration(peak.atMs)}`}
      />
      <Recovery report={report} />
      <Stat
        label="Latency p99"
        value={formatDuration(latencyMs.p99)}
        note={`p50 ${formatDuration(latencyMs.p50)}, including waits`}
      />
      <Stat
        label="Lost"
        value={formatPercent(calls === 0 ? 0 : lost / calls)}
        tone={lost > calls / 2 ? "bad" : "plain"}
        note={`${formatInteger(lost)} of ${formatInteger(calls)} calls`}
      />
      <Goodput report={report} />
    </Stats>
  );
}

/** A message queue has no faults to recover from; its problem is duplicate work. */
function Recovery({ report }: { readonly report: Report }) {
  const { recoveryMs, duplicateShare } = report;
  if (duplicateShare !== undefined) {
    return <Stat label="Duplicates" value={formatPercent(duplicateShare)} note="of the runs" />;
  }
  return (
    <Stat
      label="Recovers"
      value={recoveryText(report)}
      tone={recoveryMs === null && !isUndecided(report) ? "bad" : "plain"}
      note={recoveryNote(report)}
    />
  );
}

function recoveryNote(report: Report): string {
  if (report.recoveryMs === undefined) return "nothing to recover from";
  return isUndecided(report) ? "observe it for longer" : "after the fault";
}

/** Successful calls per second after the faults and during them. */
function Goodput({ report }: { readonly report: Report }) {
  const faults = faultPeriodOf(phases.value);
  if (report.deadLetterShare !== undefined) {
    const share = formatPercent(report.deadLetterShare);
    return <Stat label="Dead letters" value={share} note="of the messages" />;
  }
  if (faults === undefined) {
    return <Stat label="Goodput" value={formatPercent(report.goodput)} note="of the calls" />;
  }
  const during = countsIn(report, faults.fromMs, faults.toMs);
  const after = countsIn(report, faults.toMs, endOf(report));
  const isOpen = report.engine === "calls" && after.offered > 0;
  const offered = isOpen ? `, offered ${rateOf(after.offered, after.ms)}` : "";
  return (
    <Stat
      label="Goodput after"
      value={rateOf(after.succeeded, after.ms)}
      note={`during ${rateOf(during.succeeded, during.ms)}${offered}`}
      tone={after.succeeded === 0 && after.offered > 0 ? "bad" : "accent"}
    />
  );
}

function rateOf(count: number, ms: number): string {
  return ms === 0 ? "-" : `${formatInteger((count * 1000) / ms)}/s`;
}

/** Every measure, exactly as `redrive sim run` prints it. */
export function MeasureTable({ report }: { readonly report: Report }) {
  return (
    <details class="more">
      <summary>All measures</summary>
      <div class={isStale.value ? "table-wrap stale" : "table-wrap"} aria-busy={isBusy.value}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">measure</th>
              <th scope="col" class="number">
                value
              </th>
              <th scope="col">what it means</th>
            </tr>
          </thead>
          <tbody>
            {reportRows(report).map(([name, value, meaning]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{value}</td>
                <td>{meaning}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
