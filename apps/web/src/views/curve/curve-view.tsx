/** Curve view: the waits of one call whose attempts all fail, and the outage that it outlasts. */

import { formatCount, formatDuration, formatPercent } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { formatSamples, maxSumMs, policySummary, scheduleRows } from "@redrive/simulator/text";
import { createRef } from "preact";
import { Card } from "../../components/card.tsx";
import { LazyPart } from "../../components/lazy-part.tsx";
import { Legend } from "../../components/legend.tsx";
import { Stat, Stats } from "../../components/stat.tsx";
import { Toggle } from "../../components/toggle.tsx";
import { exportMenu } from "../../exports/export-menu.ts";
import { currentResult } from "../../worker/query.ts";
import { newSeed } from "../seed.ts";
import type { View } from "../view.ts";
import { CurveControls } from "./curve-controls.tsx";
import {
  coverageQuery,
  curveRun,
  drawn,
  isLog,
  openCurve,
  outageMs,
  policy,
  resetCurve,
  resolved,
  retryAfterMs,
  samples,
  seed,
} from "./curve-store.ts";
import { OutageChart } from "./outage-chart.tsx";
import { strategyName } from "./strategy.ts";
import { WaitList } from "./wait-list.tsx";
import { MAX_SHOWN, WaitsChart } from "./waits-chart.tsx";
import "./curve.css";

const drawing = createRef<SVGSVGElement>();

const strategyTable = async () => (await import("./strategy-table.tsx")).StrategyTable;

function Stage() {
  const schedule = drawn.value;
  return (
    <>
      <Card>
        <CurveStats schedule={schedule} />
      </Card>
      <Card
        title="Backoff curve"
        aside={
          <Toggle
            checked={isLog.value}
            onChange={(checked) => {
              isLog.value = checked;
            }}
          >
            logarithmic
          </Toggle>
        }
      >
        <WaitsChart schedule={schedule} isLog={isLog.value} svgRef={drawing} />
        <Legend
          entries={[
            { mark: "mark", label: "wait with this seed" },
            { mark: "mark-range", label: "possible range" },
          ]}
        />
        {schedule.waits.length >= MAX_SHOWN && (
          <p class="faint">
            The chart shows the first {MAX_SHOWN} attempts; the table has all of them.
          </p>
        )}
      </Card>
      <Card title="Does it outlast the outage?" aside="drag the end of the outage">
        <OutageChart
          schedule={schedule}
          outageMs={outageMs.value}
          onOutage={(value) => {
            outageMs.value = value;
          }}
        />
        <Coverage />
      </Card>
      <Card title="Waits" aside={`seed ${seed.value}`}>
        <WaitList schedule={schedule} />
      </Card>
      <LazyPart height="420px" load={strategyTable} />
    </>
  );
}

function CurveStats({ schedule }: { readonly schedule: Schedule }) {
  const { waits, sumMs, attempts } = schedule;
  return (
    <Stats>
      <Stat label="Strategy" value={strategyName(policy.value)} note={`seed ${seed.value}`} />
      <Stat
        label="Sum of waits"
        value={formatDuration(sumMs)}
        tone="accent"
        note={`${formatCount(waits.length, "wait")}${maxSumText(schedule)}`}
      />
      <Stat label="Attempts" value={String(attempts)} note={endText(schedule)} />
      <Stat
        label={`Outlasts ${formatDuration(outageMs.value)}`}
        value={coverageText()}
        note="of calls"
        isBusy={coverageQuery.isBusy.value}
      />
    </Stats>
  );
}

function coverageText(): string {
  const share = coverageQuery.value.value;
  return share === undefined ? "…" : formatPercent(share);
}

function maxSumText(schedule: Schedule): string {
  const maxMs = maxSumMs(policy.value, schedule);
  return maxMs === undefined ? "" : `, at most ${formatDuration(maxMs)}`;
}

function endText({ endedBy, attempts }: Schedule): string {
  const { maxAttempts, totalBudgetMs } = resolved.value;
  if (endedBy === "attempts") return "the maximum";
  const left = `of ${maxAttempts}: `;
  if (endedBy === "budget")
    return `${left}stopped by the deadline of ${formatDuration(totalBudgetMs)}`;
  return attempts === 1
    ? `${left}the hint exceeds the deadline`
    : `${left}the next hint exceeds the deadline`;
}

function Coverage() {
  if (coverageQuery.problem.value !== "")
    return <p class="problem">{coverageQuery.problem.value}</p>;
  return (
    <p class="coverage" aria-busy={coverageQuery.isBusy.value}>
      <strong>{coverageText()}</strong> of calls outlast an outage of{" "}
      {formatDuration(outageMs.value)}
      <span class="faint">{formatSamples(policy.value, samples.value)}</span>
    </p>
  );
}

/** The same object that `redrive schedule --json` prints. */
async function json(): Promise<object> {
  const coverage = await currentResult(coverageQuery);
  return {
    seed: seed.value,
    policy: policy.value,
    schedule: drawn.value,
    outageMs: outageMs.value,
    coverage,
    ...(retryAfterMs.value > 0 && { retryAfterMs: retryAfterMs.value }),
  };
}

export const curveView: View<"curve"> = {
  id: "curve",
  explanation:
    "Each column is one attempt of a call that keeps failing: the dot is the wait before it, the whisker its possible range. Without jitter, re-rolling changes nothing and every client waits the same; with jitter, each re-roll gives other waits.",
  Controls: CurveControls,
  Stage,
  state: curveRun,
  open: openCurve,
  reset: resetCurve,
  reroll() {
    seed.value = newSeed(seed.value);
  },
  exports: () =>
    exportMenu({
      name: "redrive-curve",
      drawing: () => drawing.current,
      caption: () => `${policySummary(policy.value)}; seed ${seed.value}`,
      rows: () => scheduleRows(drawn.value),
      json,
      policy: () => policy.value,
    }),
};
