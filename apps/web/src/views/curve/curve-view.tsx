/** Curve view: the waits of one call whose attempts all fail, and the outage that it outlasts. */
import { useSignal } from "@preact/signals";
import {
  formatCount,
  formatDuration,
  formatInteger,
  formatPercent,
  type PolicyDocument,
} from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
import { formatSamples, maxSumMs, policySummary, scheduleRows } from "@redrive/simulator/text";
import { createRef } from "preact";
import {
  BottomAxis,
  Chart,
  Legend,
  linearScale,
  niceStep,
  round,
  timeAxis,
} from "../../components/chart.tsx";
import { DurationField, Field, Problem, Segmented, Toggle } from "../../components/controls.tsx";
import { exportMenu } from "../../components/export-menu.ts";
import { Card, Stat, Stats } from "../../components/frames.tsx";
import { LazyPart, LINT_PANEL_HEIGHT } from "../../components/lazy-part.tsx";
import { DelayFields, loadPolicy, PolicyPicker } from "../../components/policy-picker.tsx";
import { currentResult } from "../../worker/query.ts";
import { newSeed, type View } from "../view.ts";
import {
  changePolicy,
  changeStrategy,
  coverageQuery,
  curveRun,
  drawn,
  isLog,
  openCurve,
  outageMs,
  policy,
  policyName,
  resetCurve,
  resolved,
  retryAfterMs,
  type StrategyId,
  samples,
  seed,
  setPolicy,
  strategyLabels,
  strategyName,
  strategyOf,
} from "./curve-store.ts";
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

// Curve controls: preset, strategy and its numbers, deadline, Retry-After and outage.

const STRATEGIES = (Object.keys(strategyLabels) as StrategyId[]).map((value) => ({
  value,
  label: strategyLabels[value],
}));

const DAY_MS = 86_400_000;

/** Loaded lazily: the panel is below the fold, and its rules are as large as the rest of the view. */
async function lint() {
  const { LintPanel } = await import("../../components/lint-panel.tsx");
  return function Lint() {
    return <LintPanel policy={policy.value} outageMs={outageMs.value} onFix={changePolicy} />;
  };
}

/** Few readers type a list. */
const delayList = () =>
  import("./delay-list-field.tsx").then(({ DelayListField }) => DelayListField);

function CurveControls() {
  const problem = useSignal("");
  const document = policy.value;
  const set = (next: PolicyDocument) => {
    problem.value = changePolicy(next);
  };
  const pick = async (name: string) => {
    if (name !== "") problem.value = setPolicy(await loadPolicy(name), name);
  };
  return (
    <>
      <Card>
        <PolicyPicker value={policyName.value} emptyLabel="custom" onPick={pick} />
        <Segmented
          label="Strategy"
          isWide
          value={strategyOf(document) ?? ("" as StrategyId)}
          options={STRATEGIES}
          onChange={(id) => {
            problem.value = changeStrategy(id);
          }}
        />
        {document.delaysMs === undefined ? (
          <CurveFields onChange={set} />
        ) : (
          <LazyPart height="9rem" load={delayList} props={{ document, onChange: set }} />
        )}
        {resolved.value.jitterType === "PROPORTIONAL" && <RatioField onChange={set} />}
        <Problem message={problem.value} />
        <p class="field-hint">{policySummary(document)}</p>
      </Card>
      <Limits onChange={set} />
      <LazyPart height={LINT_PANEL_HEIGHT} load={lint} />
    </>
  );
}

interface ChangeProps {
  onChange(next: PolicyDocument): void;
}

function CurveFields({ onChange }: ChangeProps) {
  const document = policy.value;
  const {
    initialDelayMs = 0,
    maxDelayMs = 0,
    multiplier = 2,
    maxAttempts,
    backoff,
  } = resolved.value;
  const set = (changed: PolicyDocument) => onChange({ ...document, ...changed });
  return (
    <>
      <DelayFields
        initialDelayMs={initialDelayMs}
        maxDelayMs={maxDelayMs}
        maxAttempts={maxAttempts}
        base={{ min: 0, maxTyped: DAY_MS }}
        max={{ maxTyped: 30 * DAY_MS, isDisabled: backoff === "FIXED" }}
        attempts={{ min: 1, maxTyped: 1000 }}
        onChange={set}
      />
      <Field
        label="Multiplier"
        unit="×"
        value={multiplier}
        min={1}
        max={4}
        maxTyped={10}
        step={0.1}
        isDisabled={backoff !== "EXPONENTIAL" || resolved.value.jitterType === "DECORRELATED"}
        onInput={(value) => set({ multiplier: value })}
      />
    </>
  );
}

function RatioField({ onChange }: ChangeProps) {
  return (
    <Field
      label="Jitter, plus or minus"
      unit="%"
      value={Math.round(resolved.value.jitterRatio * 100)}
      min={0}
      max={100}
      onInput={(value) => onChange({ ...policy.value, jitterRatio: value / 100 })}
    />
  );
}

function Limits({ onChange }: ChangeProps) {
  const { totalBudgetMs } = resolved.value;
  return (
    <Card title="Deadline and outage">
      <DurationField
        label="Deadline"
        value={totalBudgetMs}
        min={100}
        max={DAY_MS}
        maxTyped={365 * DAY_MS}
        hint="for all attempts and waits"
        onInput={(value) => onChange({ ...policy.value, totalBudgetMs: value })}
      />
      <DurationField
        label="Retry-After floor"
        value={retryAfterMs.value}
        min={0}
        max={600_000}
        maxTyped={DAY_MS}
        hint={retryAfterMs.value === 0 ? "no response has a hint" : "every response has this hint"}
        onInput={(value) => {
          retryAfterMs.value = value;
        }}
      />
      <DurationField
        label="Outage"
        value={outageMs.value}
        min={0}
        max={DAY_MS}
        maxTyped={365 * DAY_MS}
        onInput={(value) => {
          outageMs.value = value;
        }}
      />
    </Card>
  );
}

/** The waits in milliseconds, each with the range that it was drawn from. */
function WaitList({ schedule }: { readonly schedule: Schedule }) {
  return (
    <div class="table-wrap tall waits">
      <table class="table">
        <thead>
          <tr>
            <th scope="col" class="number">
              Attempt
            </th>
            <th scope="col" class="number">
              Wait, ms
            </th>
            <th scope="col" class="number">
              Drawn from, ms
            </th>
            <th scope="col" class="number">
              Starts at, ms
            </th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row" class="number">
              1
            </th>
            <td class="number">0</td>
            <td class="number">immediate</td>
            <td class="number">0</td>
          </tr>
          {schedule.waits.map(({ attempt, delayMs, lowMs, highMs, sumMs }) => (
            <tr key={attempt}>
              <th scope="row" class="number">
                {attempt + 1}
              </th>
              <td class="number strong">{formatInteger(delayMs)}</td>
              <td class="number">
                {lowMs === highMs ? "exact" : `${formatInteger(lowMs)} to ${formatInteger(highMs)}`}
              </td>
              <td class="number">{formatInteger(sumMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Outage chart: the attempts on a time axis, and an outage whose end can be dragged. The handle is
// a native slider over the chart, so that mouse, touch and keyboard work.

interface OutageChartProps {
  readonly schedule: Schedule;
  readonly outageMs: number;
  onOutage(outageMs: number): void;
}

const OUTAGE_HEIGHT = 96;
const LINE = 40;
const BOTTOM = 66;
/** Half the width of the handle, so that its center covers the whole scale. */
const SIDE = 10;
/** The number of arrow-key steps across the axis. */
const OUTAGE_STEPS = 200;

function OutageChart({ schedule, outageMs, onOutage }: OutageChartProps) {
  const { waits, sumMs } = schedule;
  const held = useSignal<number | undefined>(undefined);
  const maxSumMs = waits.reduce((sum, { highMs }) => sum + highMs, 0);
  // The axis is fixed during a drag, so that the handle stays under the pointer.
  const axis = timeAxis(held.value ?? Math.max(1, maxSumMs, sumMs, outageMs * 1.1));
  const stepMs = Math.max(1, niceStep(axis.endMs / OUTAGE_STEPS));
  const starts = [0, ...waits.map((wait) => wait.sumMs)];
  const firstAfter = starts.findIndex((at) => at >= outageMs);
  const verdict = verdictText(firstAfter, outageMs, sumMs);
  return (
    <div class="outage">
      <Chart title="Attempts and the outage over time" description={verdict} height={OUTAGE_HEIGHT}>
        {(width) => {
          const scale = linearScale([0, axis.endMs], [SIDE, width - SIDE]);
          const end = round(scale(outageMs));
          return (
            <>
              <BottomAxis
                scale={scale}
                ticks={axis.ticks(6)}
                format={axis.format}
                bottom={BOTTOM}
              />
              <rect x={SIDE} y={LINE - 18} width={end - SIDE} height="36" class="outage-band" />
              <line x1={SIDE} x2={width - SIDE} y1={LINE} y2={LINE} class="rule base" />
              <line x1={end} x2={end} y1={LINE - 22} y2={LINE + 22} class="outage-end" />
              {starts.map((at, index) => (
                <circle
                  key={`${index + 1}`}
                  cx={round(scale(at))}
                  cy={LINE}
                  r="4.5"
                  class={at >= outageMs ? "mark" : "mark-failed"}
                />
              ))}
              <text x={SIDE} y="12" class="caption">
                outage of {formatDuration(outageMs)}
              </text>
            </>
          );
        }}
      </Chart>
      <input
        type="range"
        class="track-handle outage-handle"
        aria-label="End of the outage"
        aria-valuetext={formatDuration(outageMs)}
        min={0}
        max={axis.endMs}
        step={stepMs}
        value={outageMs}
        onPointerDown={() => {
          held.value = axis.endMs;
        }}
        onPointerUp={() => {
          held.value = undefined;
        }}
        onPointerCancel={() => {
          held.value = undefined;
        }}
        onInput={(event) => onOutage(Math.round(Number(event.currentTarget.value)))}
      />
      <p class="outage-verdict">{verdict}</p>
    </div>
  );
}

/** Whether this call outlasts the outage. */
function verdictText(firstAfter: number, outageMs: number, sumMs: number): string {
  if (firstAfter >= 0) {
    return firstAfter === 0
      ? "No outage: the first attempt succeeds."
      : `This call succeeds: attempt ${firstAfter + 1} starts after the outage.`;
  }
  return `This call gives up at ${formatDuration(sumMs)}, ${formatDuration(outageMs - sumMs)} before the outage ends.`;
}
