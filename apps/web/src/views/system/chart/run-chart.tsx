/** Run chart: load, attempts, goodput and queue age over time, with the faults in the background. */

import { formatDuration, formatInteger, formatNumber } from "@redrive/core";
import type { PhaseDocument, Report } from "@redrive/simulator";
import { createRef } from "preact";
import { BottomAxis, LeftAxis, round } from "../../../chart/axis.tsx";
import { Chart } from "../../../chart/chart.tsx";
import { linearScale, niceMax, type Scale } from "../../../chart/scale.ts";
import { policyOf, serverOf, tiersOf } from "../document/document.ts";
import { phaseName } from "../document/phases.ts";
import { currentCalls, phases } from "../state/system-store.ts";
import { type Columns, faultPeriodOf, type Lane, topOf } from "./columns.ts";
import { cursor, endMs, LEFT, RIGHT } from "./plot.ts";

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
