/**
 * Outage chart: the attempts on the line of time, and an outage whose end can be dragged along it.
 * The handle is a real slider laid over the drawing, so that mouse, touch and keys all work.
 */
import { useSignal } from "@preact/signals";
import type { Schedule } from "@redrive/simulator";
import { formatDuration } from "@redrive/simulator/words";
import { BottomAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, niceStep } from "../../chart/scale.ts";
import { timeAxis } from "../../chart/time-axis.ts";

interface OutageChartProps {
  readonly schedule: Schedule;
  readonly outageMs: number;
  onOutage(outageMs: number): void;
}

const HEIGHT = 96;
const LINE = 40;
const BOTTOM = 66;
/** Half the handle, so that its middle runs from end to end of the scale. */
const SIDE = 10;
/** Steps from end to end for the arrow keys. */
const STEPS = 200;

export function OutageChart({ schedule, outageMs, onOutage }: OutageChartProps) {
  const { waits, sumMs } = schedule;
  const held = useSignal<number | undefined>(undefined);
  const mostMs = waits.reduce((sum, { highMs }) => sum + highMs, 0);
  // While it is dragged the axis stands still, or the handle would run away from the hand.
  const axis = timeAxis(held.value ?? Math.max(1, mostMs, sumMs, outageMs * 1.1));
  const stepMs = Math.max(1, niceStep(axis.endMs / STEPS));
  const starts = [0, ...waits.map((wait) => wait.sumMs)];
  const through = starts.findIndex((at) => at >= outageMs);
  const words = verdictWords(through, outageMs, sumMs);
  return (
    <div class="outage">
      <Chart title="Attempts and the outage over time" description={words} height={HEIGHT}>
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
                server away for {formatDuration(outageMs)}
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
      <p class="outage-words">{words}</p>
    </div>
  );
}

/** What this one call makes of the outage. */
function verdictWords(through: number, outageMs: number, sumMs: number): string {
  if (through >= 0) {
    return through === 0
      ? "No outage: the first attempt gets through."
      : `This call gets through: attempt ${through + 1} starts after the outage.`;
  }
  return `This call gives up at ${formatDuration(sumMs)}, ${formatDuration(outageMs - sumMs)} before the server is back.`;
}
