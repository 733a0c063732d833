/** Herd view: when retries arrive after many clients fail at the same instant, by strategy. */
import { useSignal } from "@preact/signals";
import {
  formatDuration,
  formatInteger,
  formatNumber,
  formatPercent,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";
import { MAX_STRATEGIES, strategyNames } from "@redrive/simulator";
import { herdRows, peaksOver } from "@redrive/simulator/text";
import { createRef, type Ref } from "preact";
import {
  BottomAxis,
  Chart,
  linearScale,
  logScale,
  niceMax,
  round,
  type Scale,
  timeAxis,
} from "../../components/chart.tsx";
import {
  DurationField,
  Field,
  LOG_STEPS,
  Problem,
  positionOf,
  Toggle,
  valueAt,
} from "../../components/controls.tsx";
import { exportMenu } from "../../components/export-menu.ts";
import { Card, Notice, Stat, Stats } from "../../components/frames.tsx";
import { LazyPart, LINT_PANEL_HEIGHT } from "../../components/lazy-part.tsx";
import { DelayFields, PolicyPicker } from "../../components/policy-picker.tsx";
import { currentResult } from "../../worker/query.ts";
import { newSeed, type View } from "../view.ts";
import {
  addStrategy,
  changeCurve,
  clients,
  curve,
  herdQuery,
  herdRun,
  isScaleShared,
  MAX_CLIENTS,
  MIN_CLIENTS,
  openHerd,
  removeStrategy,
  resetHerd,
  type StrategyResult,
  seed,
  strategies,
  strategyLabel,
  windowMs,
} from "./herd-store.ts";
import "./herd.css";

const drawing = createRef<SVGSVGElement>();

function Stage() {
  const shown = herdQuery.value.value ?? [];
  const isBusy = herdQuery.isBusy.value;
  return (
    <>
      {herdQuery.problem.value !== "" && <Notice tone="bad">{herdQuery.problem.value}</Notice>}
      <Card>
        <HerdStats results={shown} />
      </Card>
      <Card
        title="Arrivals"
        aside={
          <Toggle
            checked={isScaleShared.value}
            onChange={(checked) => {
              isScaleShared.value = checked;
            }}
          >
            same scale
          </Toggle>
        }
      >
        <div class="herd">
          <div aria-busy={isBusy}>
            <HerdChart results={shown} isScaleShared={isScaleShared.value} svgRef={drawing} />
          </div>
          <WindowHandle />
        </div>
        <p class="faint">Each column shows the fullest window in it{hiddenText(shown)}.</p>
      </Card>
      <Card title="Peaks" aside={inputText()}>
        <PeakTable results={shown} />
      </Card>
    </>
  );
}

/** Describes the input of the shown result, which can be older than the controls. */
function inputText(): string {
  const { input } = herdQuery.latest.value ?? {};
  return input === undefined
    ? "counting…"
    : `seed ${input.seed}, windows of ${formatDuration(input.windowMs)}`;
}

function HerdStats({ results: shown }: { readonly results: readonly StrategyResult[] }) {
  const worst = shown.toSorted((a, b) => b.herd.peak.count - a.herd.peak.count)[0];
  const best = lowestPeak(shown);
  if (worst === undefined || best === undefined) {
    return <p class="faint">{herdQuery.isBusy.value ? "Counting…" : "Not counted."}</p>;
  }
  const factor = best.herd.peak.count === 0 ? 1 : worst.herd.peak.count / best.herd.peak.count;
  return (
    <Stats isBusy={herdQuery.isBusy.value}>
      <Stat
        label="Clients"
        value={formatInteger(worst.herd.clients)}
        note={`seed ${herdQuery.latest.value?.input.seed}`}
      />
      <Stat
        label="Highest peak"
        value={formatInteger(worst.herd.peak.count)}
        note={`${strategyLabel(worst.name)}, in ${formatDuration(worst.herd.windowMs)}`}
        tone="bad"
      />
      <Stat
        label="Lowest peak"
        value={formatInteger(best.herd.peak.count)}
        note={`${strategyLabel(best.name)}, in ${formatDuration(best.herd.windowMs)}`}
        tone="accent"
      />
      <Stat
        label="Ratio"
        value={`${Math.round(factor * 10) / 10} ×`}
        note="same clients, same seed"
      />
    </Stats>
  );
}

/** The strategy with the lowest peak. */
function lowestPeak(shown: readonly StrategyResult[]): StrategyResult | undefined {
  return shown.toSorted((a, b) => a.herd.peak.count - b.herd.peak.count)[0];
}

function hiddenText(shown: readonly StrategyResult[]): string {
  const lastMs = Math.max(0, ...shown.map(({ herd }) => herd.lastAtMs));
  const endMs = Math.max(0, ...shown.map(({ herd }) => herd.arrivals.length * herd.windowMs));
  return lastMs > endMs ? `; later arrivals, up to ${formatDuration(lastMs)}, are not shown` : "";
}

function PeakTable({ results: shown }: { readonly results: readonly StrategyResult[] }) {
  return (
    <div class="table-wrap" aria-busy={herdQuery.isBusy.value}>
      <table class="table peaks">
        <thead>
          <tr>
            <th scope="col">Strategy</th>
            <th scope="col" class="number">
              Peak
            </th>
            <th scope="col" class="number">
              Share of clients
            </th>
            <th scope="col" class="number">
              At
            </th>
            <th scope="col" class="number">
              Retries
            </th>
            <th scope="col" class="number">
              Last retry at
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ name, herd }, index) => (
            <tr key={`${index}-${name}`} data-strategy={name}>
              <th scope="row">{strategyLabel(name)}</th>
              <td class="number strong">{formatInteger(herd.peak.count)}</td>
              <td class="number">{formatPercent(herd.peak.share)}</td>
              <td class="number">{formatDuration(herd.peak.atMs)}</td>
              <td class="number">{formatInteger(herd.retries)}</td>
              <td class="number">{formatDuration(herd.lastAtMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The same object that `redrive sim herd --json` prints. */
async function json(): Promise<object> {
  const results = await currentResult(herdQuery);
  return {
    seed: seed.value,
    clients: clients.value,
    windowMs: windowMs.value,
    strategies: results.map(({ name, document, herd }) => ({ name, policy: document, herd })),
  };
}

export const herdView: View<"herd"> = {
  id: "herd",
  explanation:
    "All clients fail at the same instant, every retry fails too, and the columns count the retries that arrive at the recovering server. Without jitter all clients retry at the same moments; the strategies differ only in how they spread the retries.",
  Controls: HerdControls,
  Stage,
  state: herdRun,
  open: openHerd,
  reset: resetHerd,
  reroll() {
    seed.value = newSeed(seed.value);
  },
  exports: () =>
    exportMenu({
      name: "redrive-herd",
      drawing: async () => {
        await currentResult(herdQuery);
        return drawing.current;
      },
      caption: () => `${formatInteger(clients.value)} clients, ${inputText()}`,
      rows: async () => herdRows(await currentResult(herdQuery)),
      json,
      policy: async () => lowestPeak(await currentResult(herdQuery))?.document ?? {},
      policyTitle: () =>
        `${strategyLabel(lowestPeak(herdQuery.value.value ?? [])?.name ?? "")} (lowest peak)`,
    }),
};

// Herd controls: the clients, the window, the compared strategies and their shared delays.

/** A lint panel for each strategy, with the number of clients. */
async function lint() {
  const { LintPanel } = await import("../../components/lint-panel.tsx");
  return function Lint() {
    return (
      <>
        {strategies.value.map(({ name, document }, index) => (
          <LintPanel
            key={`${index}-${name}`}
            title={`Lint: ${strategyLabel(name)}`}
            policy={document}
            clients={clients.value}
          />
        ))}
      </>
    );
  };
}

function HerdControls() {
  return (
    <>
      <Card>
        <Field
          label="Clients"
          unit="clients"
          value={clients.value}
          min={MIN_CLIENTS}
          max={MAX_CLIENTS}
          scale="log"
          format={formatInteger}
          onInput={(value) => {
            clients.value = value;
          }}
        />
        <DurationField
          label="Window"
          value={windowMs.value}
          min={1}
          max={1000}
          maxTyped={86_400_000}
          hint="arrivals are counted per window; the peak depends on its width"
          onInput={(value) => {
            windowMs.value = value;
          }}
        />
      </Card>
      <Strategies />
      <SharedDelays />
      <LazyPart height={`calc(${strategies.value.length} * ${LINT_PANEL_HEIGHT})`} load={lint} />
    </>
  );
}

function Strategies() {
  const chosen = strategies.value;
  const isFull = chosen.length >= MAX_STRATEGIES;
  return (
    <Card title="Compared strategies" aside={`${chosen.length} of ${MAX_STRATEGIES}`}>
      <ul class="compared">
        {chosen.map(({ name }, index) => (
          <li key={`${index}-${name}`}>
            <span>{strategyLabel(name)}</span>
            <button
              type="button"
              class="button quiet"
              aria-label={`Remove ${strategyLabel(name)}`}
              disabled={chosen.length === 1}
              onClick={() => removeStrategy(index)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {isFull ? (
        <p class="field-hint">Remove one to add another.</p>
      ) : (
        <>
          <div class="add-row">
            {strategyNames
              .filter((name) => !chosen.some((one) => one.name === name))
              .map((name) => (
                <button
                  key={name}
                  type="button"
                  class="button"
                  onClick={() => void addStrategy(name)}
                >
                  + {name}
                </button>
              ))}
          </div>
          <PolicyPicker
            label="Or add a policy"
            value=""
            emptyLabel="choose one"
            onPick={(name) => name !== "" && void addStrategy(name)}
          />
        </>
      )}
    </Card>
  );
}

function SharedDelays() {
  const problem = useSignal("");
  const document = curve.value;
  const { initialDelayMs = 100, maxDelayMs = 3000, maxAttempts } = resolvePolicy(document);
  const set = (changed: PolicyDocument) => {
    problem.value = changeCurve({ ...document, ...changed });
  };
  return (
    <Card title="Shared delays">
      <DelayFields
        initialDelayMs={initialDelayMs}
        maxDelayMs={maxDelayMs}
        maxAttempts={maxAttempts}
        base={{ min: 1 }}
        attempts={{ min: 2 }}
        onChange={set}
      />
      <Problem message={problem.value} />
    </Card>
  );
}

// Herd chart: the arrivals of each strategy in stacked panels with one time axis. On a shared
// scale, the panel under the pointer has its own, because the lowest one would be a few pixels
// tall.

interface HerdChartProps {
  readonly results: readonly StrategyResult[];
  readonly isScaleShared: boolean;
  readonly svgRef: Ref<SVGSVGElement>;
}

const PANEL = 132;
const PLOT = 84;
const HEAD = 34;
const AXIS = 26;
const LEFT = 58;

function HerdChart({ results, isScaleShared, svgRef }: HerdChartProps) {
  const endMs = Math.max(1, ...results.map(({ herd }) => herd.arrivals.length * herd.windowMs));
  const axis = timeAxis(endMs);
  const read = useSignal<number | undefined>(undefined);
  const maxPeak = Math.max(1, ...results.map(({ herd }) => herd.peak.count));
  return (
    <Chart
      title="Arrivals over time"
      description={results.map(describePeak).join(" ")}
      height={results.length * PANEL + AXIS}
      svgRef={svgRef}
    >
      {(width) => {
        const scale = linearScale([0, axis.endMs], [LEFT, width - 2]);
        const bottom = results.length * PANEL - (PANEL - PLOT - HEAD);
        return (
          <>
            {results.map((result, index) => (
              <Panel
                key={`${index}-${result.name}`}
                result={result}
                y={index * PANEL}
                scale={scale}
                isOwnScale={isScaleShared && read.value === index}
                top={niceMax(
                  isScaleShared && read.value !== index ? maxPeak : result.herd.peak.count,
                )}
                onRead={(isRead) => {
                  read.value = isRead ? index : undefined;
                }}
              />
            ))}
            <BottomAxis
              scale={scale}
              ticks={axis.ticks(width < 480 ? 4 : 8)}
              format={axis.format}
              bottom={bottom}
            />
          </>
        );
      }}
    </Chart>
  );
}

/** Short enough for the margin: 1M, 250k, 8,000. */
function formatCompact(count: number): string {
  if (count >= 1_000_000) return `${formatNumber(count / 1_000_000)}M`;
  return count >= 10_000 ? `${formatNumber(count / 1000)}k` : formatInteger(count);
}

function describePeak({ name, herd: { peak } }: StrategyResult): string {
  return `${strategyLabel(name)}: peak ${formatInteger(peak.count)}, ${formatPercent(peak.share)} of the clients, at ${formatDuration(peak.atMs)}.`;
}

interface PanelProps {
  readonly result: StrategyResult;
  readonly y: number;
  readonly scale: Scale;
  readonly top: number;
  /** True if only this panel has another scale. */
  readonly isOwnScale: boolean;
  onRead(isRead: boolean): void;
}

function Panel({ result, y, scale, top, isOwnScale, onRead }: PanelProps) {
  const { name, herd } = result;
  const [left, right] = scale.range;
  const base = y + HEAD + PLOT;
  const frame = { left, right, base, height: PLOT };
  const { peak } = herd;
  const peakX = round(scale(peak.atMs + herd.windowMs / 2));
  const peakY = round(base - Math.min(1, peak.count / top) * PLOT);
  const isLate = peakX > right - 60;
  const isNarrow = right - left < 420;
  return (
    <g onPointerEnter={() => onRead(true)} onPointerLeave={() => onRead(false)}>
      <rect x={0} y={y} width={right} height={PANEL} class="pointer-area" data-export="no" />
      <text x={left} y={y + 14} class="strong">
        {strategyLabel(name)}
        {isOwnScale && <tspan class="caption"> (own scale)</tspan>}
      </text>
      <text x={right} y={y + 14} class="caption end">
        peak {formatInteger(peak.count)} in {formatDuration(herd.windowMs)}
        {isNarrow
          ? ""
          : `, ${formatPercent(peak.share)} of the clients, at ${formatDuration(peak.atMs)}`}
      </text>
      <line x1={left} x2={right} y1={base - PLOT} y2={base - PLOT} class="rule" />
      <line x1={left} x2={right} y1={base} y2={base} class="rule base" />
      <text x={left - 8} y={base - PLOT + 4} class="tick end">
        {formatCompact(top)}
      </text>
      <text x={left - 8} y={base + 4} class="tick end">
        0
      </text>
      <path
        d={columnsPath(herd.arrivals, herd.windowMs, scale.domain[1], top, frame)}
        class="mark"
      />
      <circle cx={peakX} cy={peakY} r="3" class="peak-dot" />
      <text
        x={isLate ? peakX - 7 : peakX + 7}
        y={peakY - 5}
        class={`strong halo ${isLate ? "end" : ""}`}
      >
        {formatInteger(peak.count)}
      </text>
    </g>
  );
}

interface Frame {
  readonly left: number;
  readonly right: number;
  readonly base: number;
  readonly height: number;
}

/** Narrower columns are hard to distinguish. */
const MIN_COLUMN_PX = 2;

/** The outline of all columns, for the `d` of a path. Each has the height of the fullest window in it. */
function columnsPath(
  arrivals: ArrayLike<number>,
  windowMs: number,
  endMs: number,
  top: number,
  frame: Frame,
): string {
  const width = frame.right - frame.left;
  const windows = Math.max(1, Math.ceil(endMs / windowMs));
  const columns = Math.max(1, Math.min(windows, Math.floor(width / MIN_COLUMN_PX)));
  const step = width / columns;
  const gap = step > 3 ? 0.5 : 0;
  let path = "";
  for (const [index, value] of peaksOver(arrivals, windowMs, endMs, columns).entries()) {
    if (value === 0) continue;
    const height = Math.max(0.75, Math.min(1, value / top) * frame.height);
    path += `M${round(frame.left + index * step)} ${frame.base}v${round(-height)}h${round(step - gap)}v${round(height)}z`;
  }
  return path;
}

// Window handle: a draggable bar for the width of the counting window. It is a native slider, so
// that touch and keyboard work.

const HANDLE_HEIGHT = 58;
const HANDLE_LINE = 18;
/** Half the width of the handle. */
const HANDLE_SIDE = 10;
const WINDOW_RANGE = { min: 1, max: 1000, scale: "log" } as const;
const WINDOW_TICKS = [1, 10, 100, 1000];

function WindowHandle() {
  const isHeld = useSignal(false);
  const width = windowMs.value;
  return (
    <div class={`window-handle ${isHeld.value ? "held" : ""}`}>
      <p class="window-text">
        counted in windows of <strong>{formatDuration(width)}</strong>
      </p>
      <div class="window-track">
        <Chart
          title="Width of the window"
          description={formatDuration(width)}
          height={HANDLE_HEIGHT}
        >
          {(pixels) => {
            const scale = logScale([1, 1000], [HANDLE_SIDE, pixels - HANDLE_SIDE]);
            const end = round(scale(Math.min(1000, width)));
            return (
              <>
                <BottomAxis
                  scale={scale}
                  ticks={WINDOW_TICKS}
                  format={formatDuration}
                  bottom={HANDLE_LINE + 14}
                />
                <line
                  x1={HANDLE_SIDE}
                  x2={pixels - HANDLE_SIDE}
                  y1={HANDLE_LINE}
                  y2={HANDLE_LINE}
                  class="rule base"
                />
                <rect
                  x={HANDLE_SIDE}
                  y={HANDLE_LINE - 7}
                  width={Math.max(0, end - HANDLE_SIDE)}
                  height="14"
                  class="mark-range"
                />
              </>
            );
          }}
        </Chart>
        <input
          type="range"
          class="track-handle"
          aria-label="Window width, draggable"
          aria-valuetext={formatDuration(width)}
          min={0}
          max={LOG_STEPS}
          step={5}
          value={positionOf(width, WINDOW_RANGE)}
          onPointerDown={() => {
            isHeld.value = true;
          }}
          onPointerUp={() => {
            isHeld.value = false;
          }}
          onInput={(event) => {
            windowMs.value = valueAt(Number(event.currentTarget.value), WINDOW_RANGE);
          }}
        />
      </div>
    </div>
  );
}
