/** Run chart: load, attempts, goodput and the age of the queue over time, with the trouble behind. */
import type { PhaseDocument, Report } from "@redrive/simulator";
import { span, whole } from "@redrive/simulator/words";
import { createRef } from "preact";
import { BottomAxis, LeftAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, niceMax, type Scale } from "../../chart/scale.ts";
import { type Columns, type Lane, topOf, troubleOf } from "./columns.ts";
import { policyOf, serverOf, tiersOf } from "./document.ts";
import { phaseName } from "./phases.ts";
import { cursor, endMs, LEFT, RIGHT } from "./plot.ts";
import { currentCalls, phases } from "./store.ts";

/** For exports. */
export const drawing = createRef<SVGSVGElement>();

const RATES = { top: 22, bottom: 232 };
const QUEUE = { top: 272, bottom: 352 };
const HEIGHT = 380;

interface Scales {
  readonly x: Scale;
  readonly rate: Scale;
  readonly queue: Scale;
}

interface RunChartProps {
  readonly report: Report;
  readonly columns: Columns;
  /** The run behind. */
  readonly behind: Columns | undefined;
}

export function RunChart(props: RunChartProps) {
  return (
    <Chart
      title="Load, attempts, goodput and age of the queue over time"
      description={`${props.report.verdict}. The slider below reads it column by column.`}
      height={HEIGHT}
      svgRef={drawing}
    >
      {(width) => <Drawing {...props} width={width} />}
    </Chart>
  );
}

function Drawing({ report, columns, behind, width }: RunChartProps & { readonly width: number }) {
  const scales = scalesFor(report, columns, behind, width);
  const right = width - RIGHT;
  return (
    <>
      <Trouble phases={phases.value} x={scales.x} />
      <LeftAxis
        scale={scales.rate}
        ticks={scales.rate.ticks(5)}
        spell={whole}
        left={LEFT}
        right={right}
      />
      <LeftAxis
        scale={scales.queue}
        ticks={scales.queue.ticks(3)}
        spell={axisSpan}
        left={LEFT}
        right={right}
      />
      <BottomAxis
        scale={scales.x}
        ticks={scales.x.ticks(Math.max(2, Math.floor(width / 90)))}
        spell={axisSpan}
        bottom={QUEUE.bottom}
      />
      <text x={LEFT} y={RATES.top - 9} class="caption">
        calls a second
      </text>
      <text x={LEFT} y={QUEUE.top - 9} class="caption">
        age of the queue, longest wait
      </text>
      {behind !== undefined && <Lines columns={behind} scales={scales} isGhost />}
      <Lines columns={columns} scales={scales} />
      <Limits scales={scales} right={right} />
      <OffScale columns={columns} scales={scales} />
      <Cursor columns={columns} x={scales.x} />
      <PointerArea columns={columns} x={scales.x} right={right} />
    </>
  );
}

function axisSpan(ms: number): string {
  return ms === 0 ? "0" : span(ms);
}

function scalesFor(
  report: Report,
  columns: Columns,
  behind: Columns | undefined,
  width: number,
): Scales {
  const isFleet = report.engine === "fleet";
  const fromMs = isFleet ? (troubleOf(phases.value)?.toMs ?? 0) : 0;
  const all = behind === undefined ? [columns] : [columns, behind];
  const capacity = currentCalls.value && serverOf(currentCalls.value).capacityPerSecond;
  const top = Math.max(capacity ?? 0, ...all.map((one) => topOf(one, fromMs)));
  // By the run in front: one that never recovers behind it would press it flat.
  const age = Math.max(10, ...columns.queueMs);
  return {
    x: linearScale([0, endMs.value], [LEFT, width - RIGHT]),
    rate: linearScale([0, niceMax(top * 1.02)], [RATES.bottom, RATES.top]),
    queue: linearScale([0, niceMax(age, 2)], [QUEUE.bottom, QUEUE.top]),
  };
}

function Trouble({ phases: list, x }: { readonly phases: readonly PhaseDocument[]; x: Scale }) {
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
              height={QUEUE.bottom - RATES.top}
              class="trouble"
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
  const queue = path("queueMs", scales.queue);
  return (
    <g>
      {!isGhost && <path d={closed(goodput, columns, scales.x, RATES.bottom)} class="area-good" />}
      {!isGhost && <path d={closed(queue, columns, scales.x, QUEUE.bottom)} class="area-queue" />}
      {!isGhost && <path d={path("offered", scales.rate)} class="line-offered" />}
      <path d={path("attempts", scales.rate)} class={`line-attempts${extra}`} />
      <path d={goodput} class={`line-good${extra}`} />
      <path d={queue} class={`line-queue${extra}`} />
    </g>
  );
}

/** Through the middle of each column; what lies above the scale runs along its top. */
function pathOf({ columnMs }: Columns, values: readonly number[], x: Scale, y: Scale): string {
  const top = y.domain[1];
  return values
    .map((value, column) => {
      const at = Math.min(x.domain[1], (column + 0.5) * columnMs);
      return `${column === 0 ? "M" : "L"}${round(x(at))} ${round(y(Math.min(top, value)))}`;
    })
    .join("");
}

function closed(line: string, { columnMs, attempts }: Columns, x: Scale, bottom: number): string {
  if (line === "") return "";
  const from = round(x(columnMs / 2));
  const to = round(x(Math.min(x.domain[1], (attempts.length - 0.5) * columnMs)));
  return `${line}L${to} ${bottom}L${from} ${bottom}Z`;
}

/** What the server can do, and how long anybody waits for it. */
function Limits({ scales, right }: { readonly scales: Scales; readonly right: number }) {
  const document = currentCalls.value;
  if (document === undefined) return null;
  const { capacityPerSecond } = serverOf(document);
  const { attemptTimeoutMs = 10_000 } = policyOf(document, tiersOf(document).length - 1);
  const isInSight = attemptTimeoutMs <= scales.queue.domain[1];
  return (
    <g>
      {capacityPerSecond !== undefined && (
        <Limit
          y={scales.rate(capacityPerSecond)}
          right={right}
          text={`capacity ${whole(capacityPerSecond)}/s`}
        />
      )}
      {isInSight && (
        <Limit
          y={scales.queue(attemptTimeoutMs)}
          right={right}
          text={`clients give up at ${span(attemptTimeoutMs)}`}
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

/** A closed fleet's first instant may be a hundred times what follows. */
function OffScale({ columns, scales }: { readonly columns: Columns; readonly scales: Scales }) {
  const most = columns.attempts.reduce((peak, rate) => Math.max(peak, rate), 0);
  if (most <= scales.rate.domain[1]) return null;
  const at = scales.x((columns.attempts.indexOf(most) + 0.5) * columns.columnMs);
  return (
    <text x={round(at) + 6} y={RATES.top + 10} class="caption halo">
      ▲ {whole(most)}/s
    </text>
  );
}

function Cursor({ columns, x }: { readonly columns: Columns; readonly x: Scale }) {
  if (cursor.value === undefined || cursor.value >= columns.attempts.length) return null;
  const at = round(x(Math.min(x.domain[1], (cursor.value + 0.5) * columns.columnMs)));
  return <line x1={at} x2={at} y1={RATES.top} y2={QUEUE.bottom} class="cursor" data-export="no" />;
}

interface PointerAreaProps {
  readonly columns: Columns;
  readonly x: Scale;
  readonly right: number;
}

function PointerArea({ columns, x, right }: PointerAreaProps) {
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
      height={HEIGHT}
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
