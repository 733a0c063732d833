/**
 * System view: a server with faults and the clients that retry: the verdict, the chart with the
 * phase track, the figures and the comparison. The scenario can also be edited as JSON.
 */
import { useSignal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import { checkScenario, type ScenarioDocument } from "@redrive/simulator";
import { seriesRows } from "@redrive/simulator/text";
import { useId } from "preact/hooks";
import { type ExportSources, exportMenu } from "../../components/export-menu.ts";
import { Card, Notice } from "../../components/frames.tsx";
import type { View } from "../view.ts";
import { isCalls, ownPolicyOf, policyOf } from "./document.ts";
import { GuardSwitches } from "./guard-controls.tsx";
import { PhaseForm, PhaseTrack } from "./phase-track.tsx";
import { Compare, ghostTitle, MeasureTable, RunStats, Verdict } from "./results.tsx";
import {
  CursorSlider,
  columns,
  drawing,
  ghostColumns,
  LEFT,
  Readout,
  RIGHT,
  RunChart,
} from "./run-chart.tsx";
import { SystemControls } from "./system-controls.tsx";
import {
  current,
  currentCalls,
  currentReport,
  isBusy,
  isPlotBusy,
  isSlow,
  isStale,
  layer,
  openSystem,
  problems,
  progress,
  replace,
  report,
  reroll,
  resetSystem,
  runProblem,
  seed,
  systemRun,
} from "./system-store.ts";
import "./system.css";

export const systemView: View<"system"> = {
  id: "system",
  explanation:
    "A server fails and its clients retry; if attempts stay above capacity, it serves only calls whose clients have given up. Drag the faults, switch guards on and off, and see whether goodput recovers.",
  Controls: SystemControls,
  Stage: SystemStage,
  state: systemRun,
  open: openSystem,
  reset: resetSystem,
  reroll,
  exports: () => exportMenu(systemExports()),
};

// System stage: the verdict, the chart with the phase track, the figures and the comparison.

function SystemStage() {
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

// JSON editor: the scenario document, for reading, pasting, and changing fields without a control.

function JsonEditor() {
  /** The unsaved text; undefined if there is none. */
  const draft = useSignal<string | undefined>(undefined);
  const problem = useSignal("");
  const id = useId();
  const apply = () => {
    problem.value = applyText(draft.value ?? "");
    if (problem.value === "") draft.value = undefined;
  };
  return (
    <Card>
      <details class="more">
        <summary>Scenario as JSON</summary>
        <label class="visually-hidden" for={id}>
          Scenario document
        </label>
        <textarea
          id={id}
          class="text-area mono"
          rows={16}
          spellcheck={false}
          value={draft.value ?? JSON.stringify(current.value, null, 2)}
          aria-describedby={`${id}-problem`}
          onInput={({ currentTarget }) => {
            draft.value = currentTarget.value;
          }}
        />
        <p id={`${id}-problem`} class="json-problem" role="alert">
          {problem.value}
        </p>
        <div class="compare-bar">
          <button type="button" class="button" disabled={draft.value === undefined} onClick={apply}>
            Apply
          </button>
          <button
            type="button"
            class="button quiet"
            disabled={draft.value === undefined}
            onClick={() => {
              draft.value = undefined;
              problem.value = "";
            }}
          >
            Discard
          </button>
          <span class="faint hint">
            Save it as a file and run it with <code>redrive sim run FILE</code>. The same seed gives
            the same numbers.
          </span>
        </div>
      </details>
    </Card>
  );
}

/** Shows the scenario in the text. Returns an error message, or "". */
function applyText(text: string): string {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
  const problems = checkScenario(document);
  if (problems.length > 0) return problems.map(({ message }) => message).join("; ");
  replace(document as ScenarioDocument);
  return "";
}

/** The chart, the series, the report and the policy of the System view. */
function systemExports(): ExportSources {
  return {
    name: `redrive-system-${current.value.name ?? "scenario"}`,
    drawing: async () => {
      await currentReport();
      return drawing.current;
    },
    caption: () => `${current.value.name ?? "scenario"}, seed ${seed.value}`,
    rows: async () => seriesRows(await currentReport()),
    json: currentReport,
    policy: shownPolicy,
  };
}

function shownPolicy(): PolicyDocument {
  const document = current.value;
  return isCalls(document) ? policyOf(document, layer.value) : ownPolicyOf(document);
}
