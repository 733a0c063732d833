/**
 * Waits chart: a bar, a dot and the exact wait for every attempt, and a whisker for the range that the
 * wait was drawn from. The column under the pointer is described above the chart.
 */
import { useSignal } from "@preact/signals";
import { formatDuration } from "@redrive/core";
import type { Schedule, ScheduledWait } from "@redrive/simulator";
import type { Ref } from "preact";
import {
  Chart,
  formatLogTick,
  LeftAxis,
  linearScale,
  logScale,
  logTimeTicks,
  round,
  type Scale,
  type TimeAxis,
  timeAxis,
} from "../../components/chart.tsx";

interface WaitsChartProps {
  readonly schedule: Schedule;
  readonly isLog: boolean;
  readonly svgRef: Ref<SVGSVGElement>;
}

const HEIGHT = 320;
const TOP = 28;
const BOTTOM = HEIGHT - 30;
const LEFT = 56;
/** In narrower columns, the values would touch: the pointer and the table show them. */
const LABEL_PX = 50;
/** The table below has all attempts; the chart shows at most this many. */
export const MAX_SHOWN = 60;
/** The logarithmic axis is linear below this, so that waits of 0 are visible. */
const LOG_FROM_MS = 10;

export function WaitsChart({ schedule, isLog, svgRef }: WaitsChartProps) {
  const waits = schedule.waits.slice(0, MAX_SHOWN - 1);
  const axis = timeAxis(Math.max(1, ...waits.map(({ highMs }) => highMs)));
  const scale = scaleOf(axis, isLog);
  const read = useSignal<number | undefined>(undefined);
  const spokenWaits = waits.map(
    ({ attempt, delayMs }) => `attempt ${attempt + 1} after ${formatDuration(delayMs)}`,
  );
  return (
    <>
      <p class="chart-readout faint">{readoutOf(waits, read.value)}</p>
      <Chart
        title="The wait before each attempt"
        description={`Attempt 1 immediately, ${spokenWaits.join(", ")}.`}
        height={HEIGHT}
        svgRef={svgRef}
      >
        {(width) => {
          const column = (width - LEFT - 8) / (waits.length + 1);
          const center = (attempt: number) => LEFT + (attempt - 0.5) * column;
          return (
            <>
              <LeftAxis
                scale={scale}
                ticks={isLog ? logTimeTicks(LOG_FROM_MS, axis.endMs) : axis.ticks(5)}
                format={isLog ? formatLogTick : axis.format}
                left={LEFT}
                right={width}
              />
              <First x={center(1)} column={column} y={scale(0)} />
              {waits.map((wait) => (
                <Wait
                  key={wait.attempt}
                  wait={wait}
                  x={center(wait.attempt + 1)}
                  column={column}
                  scale={scale}
                  isRead={read.value === wait.attempt + 1}
                />
              ))}
              <PointerArea
                width={width}
                attempts={waits.length + 1}
                onRead={(attempt) => {
                  read.value = attempt;
                }}
              />
              <text x={LEFT - 8} y={BOTTOM + 18} class="caption end">
                #
              </text>
            </>
          );
        }}
      </Chart>
    </>
  );
}

/** The attempt under the pointer in a sentence, or how to get one. */
function readoutOf(waits: readonly ScheduledWait[], attempt: number | undefined): string {
  if (attempt === undefined) return "Point at a column to read it.";
  const wait = waits.find((one) => one.attempt + 1 === attempt);
  if (wait === undefined) return "Attempt 1 starts immediately.";
  const { delayMs, lowMs, highMs, sumMs } = wait;
  const range =
    highMs > lowMs ? `, drawn from ${formatDuration(lowMs)} to ${formatDuration(highMs)}` : "";
  return `Attempt ${attempt}: after a wait of ${formatDuration(delayMs)}${range}; ${formatDuration(sumMs)} of waits so far.`;
}

interface PointerAreaProps {
  readonly width: number;
  readonly attempts: number;
  onRead(attempt: number | undefined): void;
}

function PointerArea({ width, attempts, onRead }: PointerAreaProps) {
  const area = Math.max(1, width - LEFT - 8);
  const read = (event: PointerEvent) => {
    const { left } = (event.currentTarget as SVGRectElement).getBoundingClientRect();
    const attempt = 1 + Math.floor(((event.clientX - left) / area) * attempts);
    onRead(Math.min(attempts, Math.max(1, attempt)));
  };
  return (
    <rect
      x={LEFT}
      y={0}
      width={area}
      height={HEIGHT}
      class="pointer-area"
      data-export="no"
      onPointerDown={read}
      onPointerMove={read}
      onPointerLeave={() => onRead(undefined)}
    />
  );
}

function scaleOf(axis: TimeAxis, isLog: boolean): Scale {
  const range = [BOTTOM, TOP] as const;
  return isLog
    ? logScale([0, axis.endMs], range, LOG_FROM_MS)
    : linearScale([0, axis.endMs], range);
}

function First({
  x,
  column,
  y,
}: {
  readonly x: number;
  readonly column: number;
  readonly y: number;
}) {
  return (
    <g>
      <circle cx={round(x)} cy={y} r="4" class="mark" />
      {column >= LABEL_PX && (
        <text x={round(x)} y={y - 10} class="middle faint-label">
          0 ms
        </text>
      )}
      <AttemptNumber x={x} column={column} attempt={1} />
    </g>
  );
}

interface WaitProps {
  readonly wait: ScheduledWait;
  readonly x: number;
  readonly column: number;
  readonly scale: Scale;
  /** True if the pointer is on it. */
  readonly isRead: boolean;
}

function Wait({ wait, x, column, scale, isRead }: WaitProps) {
  const { delayMs, lowMs, highMs, attempt } = wait;
  const bar = Math.max(2, Math.min(26, column * 0.5));
  const cap = Math.max(2, Math.min(7, column * 0.18));
  const y = scale(delayMs);
  const [low, high] = [round(scale(lowMs)), round(scale(highMs))];
  return (
    <g class={isRead ? "wait read" : "wait"}>
      <rect
        x={round(x - bar / 2)}
        y={round(y)}
        width={round(bar)}
        height={round(BOTTOM - y)}
        rx="2"
        class="mark-soft"
      />
      {highMs > lowMs && (
        <path
          d={`M${round(x)} ${low}V${high}M${round(x - cap)} ${high}h${round(cap * 2)}M${round(x - cap)} ${low}h${round(cap * 2)}`}
          class="stroke-range"
        />
      )}
      <circle cx={round(x)} cy={round(y)} r={column < 16 ? 2.5 : 4.5} class="mark" />
      {column >= LABEL_PX && (
        <text x={round(x)} y={Math.min(round(y), high) - 11} class="middle strong halo">
          {formatDuration(delayMs)}
        </text>
      )}
      <AttemptNumber x={x} column={column} attempt={attempt + 1} />
    </g>
  );
}

/** The attempt number below the axis; only every fifth if columns are narrow. */
function AttemptNumber(props: {
  readonly x: number;
  readonly column: number;
  readonly attempt: number;
}) {
  const { x, column, attempt } = props;
  if (column < 18 && attempt % 5 !== 0 && attempt !== 1) return null;
  return (
    <text x={round(x)} y={BOTTOM + 18} class="tick middle">
      {attempt}
    </text>
  );
}
