/** Run chart: load, attempts, goodput and queue age over time, with the faults in the background. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { formatDuration, formatInteger, formatNumber } from "@redrive/core";
import type { PhaseDocument, Report } from "@redrive/simulator";
import { createRef } from "preact";
import {
  BottomAxis,
  Chart,
  LeftAxis,
  linearScale,
  niceMax,
  niceStep,
  round,
  type Scale,
} from "../../components/chart.tsx";
import { phaseName, policyOf, serverOf, tiersOf } from "./document.ts";
import { currentCalls, ghostReport, phases, report } from "./system-store.ts";

/** For exports. */
export const drawing = createRef<SVGSVGElement>();

const RATES = { top: 22, bottom: 232 };
const QUEUE = { top: 272, bottom: 352 };
/** Space below the last panel for the time axis. */
const FOOT = 28;

interface Scales {
  readonly x: Scale;
  readonly rate: Scale;
  /** Undefined if there is no queue. */
  readonly queue: Scale | undefined;
  /** The bottom of the lowest panel. */
  readonly bottom: number;
}

interface RunChartProps {
  readonly report: Report;
  readonly columns: Columns;
  /** The ghost. */
  readonly behind: Columns | undefined;
}

export function RunChart(props: RunChartProps) {
  return (
    <Chart
      title="Load, attempts, goodput and queue age over time"
      description={`${props.report.verdict}. The slider below reads each column.`}
      height={bottomOf(props.report) + FOOT}
      svgRef={drawing}
    >
      {(width) => <Drawing {...props} width={width} />}
    </Chart>
  );
}

/** Only a server with a capacity has a queue. */
function bottomOf({ engine }: Report): number {
  const hasQueue =
    (engine === "calls" || engine === "fleet") &&
    currentCalls.value !== undefined &&
    serverOf(currentCalls.value).capacityPerSecond !== undefined;
  return hasQueue ? QUEUE.bottom : RATES.bottom;
}

function Drawing({ report, columns, behind, width }: RunChartProps & { readonly width: number }) {
  const scales = scalesFor(report, columns, width);
  const right = width - RIGHT;
  return (
    <>
      <Clips right={right} />
      <Faults phases={phases.value} scales={scales} />
      <LeftAxis
        scale={scales.rate}
        ticks={scales.rate.ticks(5)}
        format={formatNumber}
        left={LEFT}
        right={right}
      />
      <text x={LEFT} y={RATES.top - 9} class="caption">
        calls per second
      </text>
      {scales.queue !== undefined && (
        <>
          <LeftAxis
            scale={scales.queue}
            ticks={scales.queue.ticks(3)}
            format={formatTick}
            left={LEFT}
            right={right}
          />
          <text x={LEFT} y={QUEUE.top - 9} class="caption">
            queue age, longest wait
          </text>
        </>
      )}
      <BottomAxis
        scale={scales.x}
        ticks={scales.x.ticks(Math.max(2, Math.floor(width / 90)))}
        format={formatTick}
        bottom={scales.bottom}
      />
      {behind !== undefined && <Lines columns={behind} scales={scales} isGhost />}
      <Lines columns={columns} scales={scales} />
      <Limits scales={scales} right={right} />
      <OffScale columns={columns} scales={scales} />
      {behind !== undefined && <OffScale columns={behind} scales={scales} prefix="dashed " />}
      <Cursor columns={columns} scales={scales} />
      <PointerArea columns={columns} scales={scales} right={right} />
    </>
  );
}

/** Clips lines at the top of their panel. */
function Clips({ right }: { readonly right: number }) {
  const clip = (id: string, { top, bottom }: typeof RATES) => (
    <clipPath id={id}>
      <rect x={LEFT} y={top - 1} width={Math.max(0, right - LEFT)} height={bottom - top + 2} />
    </clipPath>
  );
  return (
    <defs>
      {clip("clip-rates", RATES)}
      {clip("clip-queue", QUEUE)}
    </defs>
  );
}

function formatTick(ms: number): string {
  return ms === 0 ? "0" : formatDuration(ms);
}

function scalesFor(report: Report, columns: Columns, width: number): Scales {
  const isFleet = report.engine === "fleet";
  const fromMs = isFleet ? (faultPeriodOf(phases.value)?.toMs ?? 0) : 0;
  const capacity = currentCalls.value && serverOf(currentCalls.value).capacityPerSecond;
  // Scaled by the current run only: a ghost that never recovers would flatten it.
  const top = Math.max(capacity ?? 0, topOf(columns, fromMs));
  const age = Math.max(10, ...columns.queueMs);
  const bottom = bottomOf(report);
  return {
    x: linearScale([0, endMs.value], [LEFT, width - RIGHT]),
    rate: linearScale([0, niceMax(top * 1.02)], [RATES.bottom, RATES.top]),
    queue:
      bottom === QUEUE.bottom
        ? linearScale([0, niceMax(age, 2)], [QUEUE.bottom, QUEUE.top])
        : undefined,
    bottom,
  };
}

interface FaultsProps {
  readonly phases: readonly PhaseDocument[];
  readonly scales: Scales;
}

function Faults({ phases: list, scales: { x, bottom } }: FaultsProps) {
  return (
    <g>
      {list.map((phase, index) => {
        const from = x(phase.atMs);
        const wide = Math.max(1, x(Math.min(endMs.value, phase.atMs + phase.forMs)) - from);
        return (
          <g key={index}>
            <rect
              x={round(from)}
              y={RATES.top}
              width={round(wide)}
              height={bottom - RATES.top}
              class="fault"
            />
            <title>{phaseName(phase)}</title>
          </g>
        );
      })}
    </g>
  );
}

interface LinesProps {
  readonly columns: Columns;
  readonly scales: Scales;
  readonly isGhost?: boolean;
}

function Lines({ columns, scales, isGhost = false }: LinesProps) {
  const path = (lane: Lane, y: Scale) => pathOf(columns, columns[lane], scales.x, y);
  const extra = isGhost ? " ghost" : "";
  const goodput = path("succeeded", scales.rate);
  const queue = scales.queue && path("queueMs", scales.queue);
  return (
    <>
      <g clip-path="url(#clip-rates)">
        {!isGhost && (
          <path d={closed(goodput, columns, scales.x, RATES.bottom)} class="area-good" />
        )}
        {!isGhost && <path d={path("offered", scales.rate)} class="line-offered" />}
        <path d={path("attempts", scales.rate)} class={`line-attempts${extra}`} />
        <path d={goodput} class={`line-good${extra}`} />
      </g>
      {queue !== undefined && (
        <g clip-path="url(#clip-queue)">
          {!isGhost && (
            <path d={closed(queue, columns, scales.x, QUEUE.bottom)} class="area-queue" />
          )}
          <path d={queue} class={`line-queue${extra}`} />
        </g>
      )}
    </>
  );
}

/** Through the center of each column, from the start of the first to the end of the last. */
function pathOf({ columnMs }: Columns, values: readonly number[], x: Scale, y: Scale): string {
  const point = (columns: number, value: number) =>
    `${round(x(Math.min(x.domain[1], columns * columnMs)))} ${round(y(value))}`;
  const middles = values.map((value, column) => point(column + 0.5, value));
  const [first, last] = [values[0], values.at(-1)];
  if (first === undefined || last === undefined) return "";
  return `M${[point(0, first), ...middles, point(values.length, last)].join("L")}`;
}

function closed(line: string, { columnMs, attempts }: Columns, x: Scale, bottom: number): string {
  if (line === "") return "";
  const to = round(x(Math.min(x.domain[1], attempts.length * columnMs)));
  return `${line}L${to} ${bottom}L${round(x(0))} ${bottom}Z`;
}

/** The capacity of the server and the attempt timeout of the clients. */
function Limits({ scales, right }: { readonly scales: Scales; readonly right: number }) {
  const document = currentCalls.value;
  if (document === undefined) return null;
  const { capacityPerSecond } = serverOf(document);
  const { attemptTimeoutMs = 10_000 } = policyOf(document, tiersOf(document).length - 1);
  return (
    <g>
      {capacityPerSecond !== undefined && (
        <Limit
          y={scales.rate(capacityPerSecond)}
          right={right}
          text={`capacity ${formatInteger(capacityPerSecond)}/s`}
        />
      )}
      {scales.queue !== undefined && attemptTimeoutMs <= scales.queue.domain[1] && (
        <Limit
          y={scales.queue(attemptTimeoutMs)}
          right={right}
          text={`clients give up at ${formatDuration(attemptTimeoutMs)}`}
        />
      )}
    </g>
  );
}

function Limit({ y, right, text }: { readonly y: number; right: number; text: string }) {
  return (
    <g transform={`translate(0 ${round(y)})`}>
      <line x1={LEFT} x2={right} class="limit" />
      <text x={right - 4} y={-4} class="caption end halo">
        {text}
      </text>
    </g>
  );
}

interface OffScaleProps {
  readonly columns: Columns;
  readonly scales: Scales;
  readonly prefix?: string;
}

/** Labels a peak above the axis. The first instant of a closed fleet can be 100 times the rest. */
function OffScale({ columns, scales, prefix = "" }: OffScaleProps) {
  const peak = columns.attempts.reduce((max, rate) => Math.max(max, rate), 0);
  if (peak <= scales.rate.domain[1]) return null;
  const at = scales.x((columns.attempts.indexOf(peak) + 0.5) * columns.columnMs);
  // On the left half, so that the label of a peak at the end is not cut off.
  const isLate = at > (scales.x.range[0] + scales.x.range[1]) / 2;
  const y = RATES.top + (prefix === "" ? 10 : 24);
  return (
    <text
      x={round(at) + (isLate ? -6 : 6)}
      y={y}
      class={isLate ? "caption halo end" : "caption halo"}
    >
      ▲ {prefix}
      {formatInteger(peak)}/s
    </text>
  );
}

function Cursor({ columns, scales }: { readonly columns: Columns; readonly scales: Scales }) {
  const { x, bottom } = scales;
  if (cursor.value === undefined || cursor.value >= columns.attempts.length) return null;
  const at = round(x(Math.min(x.domain[1], (cursor.value + 0.5) * columns.columnMs)));
  return <line x1={at} x2={at} y1={RATES.top} y2={bottom} class="cursor" data-export="no" />;
}

interface PointerAreaProps {
  readonly columns: Columns;
  readonly scales: Scales;
  readonly right: number;
}

function PointerArea({ columns, scales: { x, bottom }, right }: PointerAreaProps) {
  const read = (event: PointerEvent) => {
    const box = (event.currentTarget as SVGRectElement).getBoundingClientRect();
    const ms = x.invert(event.clientX - box.left + LEFT);
    const column = Math.floor(ms / columns.columnMs);
    cursor.value = Math.min(columns.attempts.length - 1, Math.max(0, column));
  };
  return (
    <rect
      x={LEFT}
      y={0}
      width={Math.max(0, right - LEFT)}
      height={bottom + FOOT}
      class="pointer-area"
      data-export="no"
      onPointerDown={read}
      onPointerMove={read}
      onPointerLeave={() => {
        cursor.value = undefined;
      }}
    />
  );
}

// Readout: the legend with values, for the whole run or for the column under the cursor.

interface Reading {
  readonly when: string;
  readonly offered: string;
  readonly attempts: string;
  readonly succeeded: string;
  readonly failed: string;
  readonly queue: string;
}

function readingOf(report: Report, columns: Columns, column: number | undefined): Reading {
  if (column === undefined || column >= columns.attempts.length) return wholeRun(report);
  const fromMs = column * columns.columnMs;
  const rate = (values: readonly number[]) => `${formatRate(values[column] ?? 0)}/s`;
  return {
    when: `${fromMs === 0 ? "0" : formatDuration(fromMs)} to ${formatDuration(fromMs + columns.columnMs)}`,
    offered: rate(columns.offered),
    attempts: rate(columns.attempts),
    succeeded: rate(columns.succeeded),
    failed: rate(columns.failed),
    queue: formatDuration(Math.round(columns.queueMs[column] ?? 0)),
  };
}

function formatRate(rate: number): string {
  return rate >= 100 ? formatInteger(rate) : formatNumber(rate);
}

function wholeRun(report: Report): Reading {
  const seconds = Math.max(0.001, endOf(report) / 1000);
  const { series } = report;
  const rate = (values: Float64Array) =>
    `${formatRate(values.reduce((sum, value) => sum + value, 0) / seconds)}/s`;
  return {
    when: "whole run",
    offered: rate(series.offered),
    attempts: rate(series.attempts),
    succeeded: rate(series.succeeded),
    failed: rate(series.failed),
    queue: formatDuration(Math.round(series.queueMs.reduce((max, ms) => Math.max(max, ms), 0))),
  };
}

interface ReadoutProps {
  readonly report: Report;
  readonly columns: Columns;
  readonly ghostName: string | undefined;
}

const MARKS = [
  { lane: "offered", label: "offered", mark: "key-offered" },
  { lane: "attempts", label: "attempts", mark: "key-attempts" },
  { lane: "succeeded", label: "goodput", mark: "key-good" },
  { lane: "failed", label: "given up", mark: "" },
  { lane: "queue", label: "queue age", mark: "key-queue" },
] as const;

/** Only the call models report the age of the queue. */
function marksOf({ engine }: Report) {
  const hasQueue = engine === "calls" || engine === "fleet";
  return hasQueue ? MARKS : MARKS.filter(({ lane }) => lane !== "queue");
}

export function Readout({ report, columns, ghostName }: ReadoutProps) {
  const reading = readingOf(report, columns, cursor.value);
  return (
    <div class="readout">
      <dl>
        <div class="readout-when">
          <dt>time</dt>
          <dd>{reading.when}</dd>
        </div>
        {marksOf(report).map(({ lane, label, mark }) => (
          <div key={lane}>
            <dt>
              {mark !== "" && <i class={`key ${mark}`} aria-hidden="true" />}
              {label}
            </dt>
            <dd>{reading[lane]}</dd>
          </div>
        ))}
        {ghostName !== undefined && (
          <div>
            <dt>
              <i class="key key-ghost" aria-hidden="true" />
              dashed
            </dt>
            <dd>{ghostName}</dd>
          </div>
        )}
      </dl>
    </div>
  );
}

/** The cursor for keyboards and screen readers: a slider whose value text is the readout. */
export function CursorSlider({ report, columns }: Omit<ReadoutProps, "ghostName">) {
  const last = Math.max(0, columns.attempts.length - 1);
  const value = Math.min(last, cursor.value ?? 0);
  const reading = readingOf(report, columns, value);
  const share = Math.min(1, endOf(report) / endMs.value);
  return (
    <input
      type="range"
      class="cursor-slider"
      style={{ width: `${share * 100}%` }}
      aria-label="Read the chart at"
      aria-valuetext={`${reading.when}: offered ${reading.offered}, attempts ${reading.attempts}, goodput ${reading.succeeded}, given up ${reading.failed}, queue age ${reading.queue}`}
      min={0}
      max={last}
      value={value}
      onInput={(event) => {
        cursor.value = Number(event.currentTarget.value);
      }}
      onFocus={() => {
        cursor.value ??= 0;
      }}
      onBlur={() => {
        cursor.value = undefined;
      }}
    />
  );
}

/** Margins of the plot in pixels; the axis labels are on the left. */
export const LEFT = 62;
export const RIGHT = 22;

/** Fixed during a drag on the track, so that the axis does not change. */
const heldEndMs = signal<number | undefined>(undefined);

const naturalEndMs = computed(() => {
  const ends = [report.value, ghostReport.value].map((one) => (one === undefined ? 0 : endOf(one)));
  return Math.max(1000, ...ends, faultPeriodOf(phases.value)?.toMs ?? 0);
});

/** The end of the time axis. */
export const endMs: ReadonlySignal<number> = computed(() => heldEndMs.value ?? naturalEndMs.value);

/** The dimensions and columns that the chart, the cursor and the phase track share. */
export function holdEnd(): void {
  heldEndMs.value = naturalEndMs.peek();
}

export function releaseEnd(): void {
  heldEndMs.value = undefined;
}

/** The column under the cursor; undefined means the whole run. */
const cursor = signal<number | undefined>(undefined);

/** Enough for a wide screen, few enough for a phone. */
const MAX_COLUMNS = 250;

/** The columns of the chart and the readout. */
export const columns: ReadonlySignal<Columns | undefined> = computed(
  () => report.value && columnsOf(report.value, MAX_COLUMNS),
);

export const ghostColumns: ReadonlySignal<Columns | undefined> = computed(
  () => ghostReport.value && columnsOf(ghostReport.value, MAX_COLUMNS),
);

// Columns: a run over time, merged into as many columns as the chart can show, each of whole bins.

/** One value per column; counts are rates per second. */
interface Columns {
  readonly columnMs: number;
  readonly offered: readonly number[];
  readonly attempts: readonly number[];
  readonly succeeded: readonly number[];
  readonly failed: readonly number[];
  /** The longest wait in the column; ms. */
  readonly queueMs: readonly number[];
}

type Lane = Exclude<keyof Columns, "columnMs">;

export function columnsOf({ series }: Report, maxColumns: number): Columns {
  const bins = series.attempts.length;
  const each = Math.max(1, niceStep(bins / Math.max(1, maxColumns)));
  const count = Math.ceil(bins / each);
  const rates = (lane: Float64Array) =>
    Array.from({ length: count }, (_, column) => {
      const part = lane.subarray(column * each, (column + 1) * each);
      return (sumOf(part) * 1000) / (part.length * series.binMs);
    });
  return {
    columnMs: each * series.binMs,
    offered: rates(series.offered),
    attempts: rates(series.attempts),
    succeeded: rates(series.succeeded),
    failed: rates(series.failed),
    queueMs: Array.from({ length: count }, (_, column) =>
      series.queueMs
        .subarray(column * each, (column + 1) * each)
        .reduce((max, ms) => Math.max(max, ms), 0),
    ),
  };
}

function sumOf(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0);
}

export function endOf({ series }: Report): number {
  return series.attempts.length * series.binMs;
}

/** Start and end of all faults, including warm-up; undefined if there are none. */
export function faultPeriodOf(
  phases: readonly PhaseDocument[],
): { readonly fromMs: number; readonly toMs: number } | undefined {
  if (phases.length === 0) return undefined;
  return {
    fromMs: Math.min(...phases.map(({ atMs }) => atMs)),
    toMs: Math.max(...phases.map(({ atMs, forMs, warmMs = 0 }) => atMs + forMs + warmMs)),
  };
}

/** Offered and succeeded calls in a period of the run. */
interface PeriodCounts {
  readonly ms: number;
  readonly offered: number;
  readonly succeeded: number;
}

export function countsIn({ series }: Report, fromMs: number, toMs: number): PeriodCounts {
  const from = Math.floor(fromMs / series.binMs);
  const to = Math.min(series.attempts.length, Math.floor(toMs / series.binMs));
  return {
    ms: Math.max(0, to - from) * series.binMs,
    offered: sumOf(series.offered.subarray(from, to)),
    succeeded: sumOf(series.succeeded.subarray(from, to)),
  };
}

/**
 * The top of the rate axis. A closed fleet starts all its clients at once, which would flatten the
 * rest, so only rates from `fromMs` on count.
 */
export function topOf(columns: Columns, fromMs: number): number {
  const from = Math.ceil(fromMs / columns.columnMs);
  const lanes = [columns.offered, columns.attempts, columns.succeeded];
  const later = Math.max(0, ...lanes.flatMap((lane) => lane.slice(from)));
  return later > 0 ? later : Math.max(1, ...lanes.flat());
}
