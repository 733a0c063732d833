/**
 * Outage chart: the attempts on a time axis, and an outage whose end can be dragged. The handle is a
 * native slider over the chart, so that mouse, touch and keyboard work.
 */

import { useSignal } from "@preact/signals";
import { formatDuration } from "@redrive/core";
import type { Schedule } from "@redrive/simulator";
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
/** Half the width of the handle, so that its center covers the whole scale. */
const SIDE = 10;
/** The number of arrow-key steps across the axis. */
const STEPS = 200;

export function OutageChart({ schedule, outageMs, onOutage }: OutageChartProps) {
  const { waits, sumMs } = schedule;
  const held = useSignal<number | undefined>(undefined);
  const maxSumMs = waits.reduce((sum, { highMs }) => sum + highMs, 0);
  // The axis is fixed during a drag, so that the handle stays under the pointer.
  const axis = timeAxis(held.value ?? Math.max(1, maxSumMs, sumMs, outageMs * 1.1));
  const stepMs = Math.max(1, niceStep(axis.endMs / STEPS));
  const starts = [0, ...waits.map((wait) => wait.sumMs)];
  const firstAfter = starts.findIndex((at) => at >= outageMs);
  const verdict = verdictText(firstAfter, outageMs, sumMs);
  return (
    <div class="outage">
      <Chart title="Attempts and the outage over time" description={verdict} height={HEIGHT}>
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
