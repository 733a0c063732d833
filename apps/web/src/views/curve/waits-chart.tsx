/**
 * Waits chart: a bar, a dot and the exact wait for every attempt, and a whisker for the range that the
 * wait was drawn from.
 */
import { formatDuration } from "@redrive/core";
import type { Schedule, ScheduledWait } from "@redrive/simulator";
import type { Ref } from "preact";
import { LeftAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, logScale, type Scale } from "../../chart/scale.ts";
import { type TimeAxis, timeAxis } from "../../chart/time-axis.ts";

interface WaitsChartProps {
  readonly schedule: Schedule;
  readonly isLog: boolean;
  readonly svgRef: Ref<SVGSVGElement>;
}

const HEIGHT = 320;
const TOP = 28;
const BOTTOM = HEIGHT - 30;
const LEFT = 46;
/** Labels are small below `LABEL_PX` per column, and hidden below `SMALL_LABEL_PX`. */
const LABEL_PX = 50;
const SMALL_LABEL_PX = 34;
/** The table below has all attempts; the chart shows at most this many. */
export const MAX_SHOWN = 60;
/** The logarithmic axis is linear below this, so that waits of 0 are visible. */
const LOG_FROM_MS = 10;

export function WaitsChart({ schedule, isLog, svgRef }: WaitsChartProps) {
  const waits = schedule.waits.slice(0, MAX_SHOWN - 1);
  const axis = timeAxis(Math.max(1, ...waits.map(({ highMs }) => highMs)));
  const scale = scaleOf(axis, isLog);
  const spokenWaits = waits.map(
    ({ attempt, delayMs }) => `attempt ${attempt + 1} after ${formatDuration(delayMs)}`,
  );
  return (
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
              ticks={isLog ? scale.ticks(6) : axis.ticks(5)}
              format={axis.format}
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
              />
            ))}
            <text x={LEFT - 8} y={BOTTOM + 18} class="caption end">
              #
            </text>
          </>
        );
      }}
    </Chart>
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
      {column >= SMALL_LABEL_PX && (
        <text x={round(x)} y={y - 10} class={`middle faint-label ${sizeFor(column)}`}>
          0 ms
        </text>
      )}
      <AttemptNumber x={x} column={column} attempt={1} />
    </g>
  );
}

function sizeFor(column: number): string {
  return column < LABEL_PX ? "small" : "";
}

interface WaitProps {
  readonly wait: ScheduledWait;
  readonly x: number;
  readonly column: number;
  readonly scale: Scale;
}

function Wait({ wait, x, column, scale }: WaitProps) {
  const { delayMs, lowMs, highMs, attempt } = wait;
  const bar = Math.max(2, Math.min(26, column * 0.5));
  const cap = Math.max(2, Math.min(7, column * 0.18));
  const y = scale(delayMs);
  const [low, high] = [round(scale(lowMs)), round(scale(highMs))];
  return (
    <g class="wait">
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
      {column >= SMALL_LABEL_PX && (
        <text x={round(x)} y={round(y) - 11} class={`middle strong halo ${sizeFor(column)}`}>
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
