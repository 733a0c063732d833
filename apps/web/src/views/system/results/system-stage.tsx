/** System stage: the verdict, the chart with the phase track, the figures and the comparison. */
import { Card } from "../../../components/card.tsx";
import { Notice } from "../../../components/notice.tsx";
import { PhaseForm } from "../chart/phase-form.tsx";
import { PhaseTrack } from "../chart/phase-track.tsx";
import { columns, ghostColumns, LEFT, RIGHT } from "../chart/plot.ts";
import { CursorSlider, Readout } from "../chart/readout.tsx";
import { RunChart } from "../chart/run-chart.tsx";
import { GuardSwitches } from "../controls/guard-switches.tsx";
import {
  isBusy,
  isPlotBusy,
  isSlow,
  isStale,
  progress,
  report,
  runProblem,
} from "../state/runs.ts";
import { current, currentCalls, problems } from "../state/system-store.ts";
import { Compare, ghostTitle } from "./compare.tsx";
import { MeasureTable, RunStats, Verdict } from "./figures.tsx";
import { JsonEditor } from "./json-editor.tsx";

export function SystemStage() {
  return (
    <>
      {problems.value.length > 0 && <Notice tone="bad">{problems.value.join("; ")}</Notice>}
      {runProblem.value !== "" && <Notice tone="bad">{runProblem.value}</Notice>}
      <RunCard />
      <Compare />
      <JsonEditor />
    </>
  );
}

function RunCard() {
  const shownReport = report.value;
  const drawn = columns.value;
  if (shownReport === undefined || drawn === undefined) {
    return (
      <Card class="run-card">
        <p class="verdict" aria-busy={isBusy.value}>
          {isBusy.value ? "Simulating…" : "Not simulated."}
        </p>
        <Progress />
      </Card>
    );
  }
  const { description } = current.value;
  return (
    <Card class="run-card">
      <Verdict report={shownReport} />
      {description !== undefined && <p class="faint scenario-description">{description}</p>}
      <RunStats report={shownReport} />
      {currentCalls.value !== undefined && <GuardSwitches document={currentCalls.value} />}
      <Progress />
      <div class={isStale.value ? "run-plot stale" : "run-plot"} aria-busy={isPlotBusy.value}>
        <Readout report={shownReport} columns={drawn} ghostName={ghostTitle()} />
        <RunChart report={shownReport} columns={drawn} behind={ghostColumns.value} />
        <div class="cursor-frame" style={{ marginInline: `${LEFT}px ${RIGHT}px` }}>
          <CursorSlider report={shownReport} columns={drawn} />
        </div>
      </div>
      {currentCalls.value !== undefined && (
        <div class="phase-editor">
          <PhaseTrack />
          <PhaseForm />
        </div>
      )}
      <MeasureTable report={shownReport} />
    </Card>
  );
}

/** Always takes the same space, so that nothing jumps. */
function Progress() {
  return (
    <div class="run-progress">
      {isSlow.value && <progress aria-label="Simulating" max={1} value={progress.value} />}
      <span class="visually-hidden" role="status">
        {isSlow.value ? "Simulating" : ""}
      </span>
    </div>
  );
}
