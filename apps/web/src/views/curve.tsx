/** Curve: one call whose every attempt fails: how long it waits, by seed, and what outage it outlasts. */
import { formatCount, formatDuration, formatPercent } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { formatSamples, maxSumMs, scheduleRows } from "@redrive/simulator/text";
import { createRef } from "preact";
import { anotherSeed } from "../app/seed.ts";
import type { View } from "../app/view.ts";
import { exportables } from "../exports/exportables.ts";
import { Card } from "../parts/card.tsx";
import { Legend } from "../parts/legend.tsx";
import { Stat, Stats } from "../parts/stat.tsx";
import { Toggle } from "../parts/toggle.tsx";
import { WhenSeen } from "../parts/when-seen.tsx";
import { presentAnswer } from "../worker/answer.ts";
import { CurveControls } from "./curve/controls.tsx";
import { OutageChart } from "./curve/outage-chart.tsx";
import {
  covered,
  drawn,
  isLog,
  openCurve,
  outageMs,
  policy,
  resetCurve,
  resolved,
  retryAfterMs,
  runOf,
  samples,
  seed,
} from "./curve/store.ts";
import { strategyName } from "./curve/strategy.ts";
import { WaitList } from "./curve/wait-list.tsx";
import { MAX_SHOWN, WaitsChart } from "./curve/waits-chart.tsx";
import "./curve/curve.css";

const drawing = createRef<SVGSVGElement>();

const strategyTable = async () => (await import("./curve/strategy-table.tsx")).StrategyTable;

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
            { mark: "mark", label: "the wait drawn with this seed" },
            { mark: "mark-range", label: "what it could have been" },
          ]}
        />
        {schedule.waits.length >= MAX_SHOWN && (
          <p class="faint">The first {MAX_SHOWN} attempts are drawn; the list has all of them.</p>
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
      <WhenSeen height="420px" load={strategyTable} />
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
        note={`${formatCount(waits.length, "wait")}${mostWords(schedule)}`}
      />
      <Stat label="Attempts" value={String(attempts)} note={endWords(schedule)} />
      <Stat
        label={`Outlasts ${formatDuration(outageMs.value)}`}
        value={coveredWords()}
        note="of calls"
        isBusy={covered.isBusy.value}
      />
    </Stats>
  );
}

function coveredWords(): string {
  const share = covered.value.value;
  return share === undefined ? "…" : formatPercent(share);
}

function mostWords(schedule: Schedule): string {
  const longestMs = maxSumMs(policy.value, schedule);
  return longestMs === undefined ? "" : `, at most ${formatDuration(longestMs)}`;
}

function endWords({ endedBy, attempts }: Schedule): string {
  const { maxAttempts, totalBudgetMs } = resolved.value;
  if (endedBy === "attempts") return "all that it may make";
  const left = `of ${maxAttempts}: `;
  if (endedBy === "budget")
    return `${left}the deadline of ${formatDuration(totalBudgetMs)} ends it`;
  return attempts === 1
    ? `${left}the hint passes the deadline`
    : `${left}the next hint passes the deadline`;
}

function Coverage() {
  if (covered.problem.value !== "") return <p class="problem">{covered.problem.value}</p>;
  return (
    <p class="coverage" aria-busy={covered.isBusy.value}>
      <strong>{coveredWords()}</strong> of the calls outlast an outage of{" "}
      {formatDuration(outageMs.value)}
      <span class="faint">{formatSamples(policy.value, samples.value)}</span>
    </p>
  );
}

/** As `redrive schedule --json` prints it. */
async function json(): Promise<object> {
  const coverage = await presentAnswer(covered);
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
    "Each column is one attempt of a call that keeps failing: the dot is the wait before it, the whisker what chance could have drawn. Re-roll, and a curve without jitter stays put, in every client alike; a jittered one lands elsewhere each time.",
  Controls: CurveControls,
  Stage,
  state: runOf,
  open: openCurve,
  reset: resetCurve,
  reroll() {
    seed.value = anotherSeed(seed.value);
  },
  exports: () =>
    exportables({
      name: "redrive-curve",
      drawing: () => drawing.current,
      rows: () => scheduleRows(drawn.value),
      json,
      policy: () => policy.value,
    }),
};
