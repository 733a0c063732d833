/**
 * Window handle: a draggable bar for the width of the counting window. It is a native slider, so that
 * touch and keyboard work.
 */

import { useSignal } from "@preact/signals";
import { formatDuration } from "@redrive/core";
import { BottomAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { logScale } from "../../chart/scale.ts";
import { LOG_STEPS, positionOf, valueAt } from "../../components/slider-scale.ts";
import { windowMs } from "./herd-store.ts";

const HEIGHT = 58;
const LINE = 18;
/** Half the width of the handle. */
const SIDE = 10;
const RANGE = { min: 1, max: 1000, scale: "log" } as const;
const TICKS = [1, 10, 100, 1000];

export function WindowHandle() {
  const isHeld = useSignal(false);
  const width = windowMs.value;
  return (
    <div class={`window-handle ${isHeld.value ? "held" : ""}`}>
      <p class="window-text">
        counted in windows of <strong>{formatDuration(width)}</strong>
      </p>
      <div class="window-track">
        <Chart title="Width of the window" description={formatDuration(width)} height={HEIGHT}>
          {(pixels) => {
            const scale = logScale([1, 1000], [SIDE, pixels - SIDE]);
            const end = round(scale(Math.min(1000, width)));
            return (
              <>
                <BottomAxis
                  scale={scale}
                  ticks={TICKS}
                  format={formatDuration}
                  bottom={LINE + 14}
                />
                <line x1={SIDE} x2={pixels - SIDE} y1={LINE} y2={LINE} class="rule base" />
                <rect
                  x={SIDE}
                  y={LINE - 7}
                  width={Math.max(0, end - SIDE)}
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
          value={positionOf(width, RANGE)}
          onPointerDown={() => {
            isHeld.value = true;
          }}
          onPointerUp={() => {
            isHeld.value = false;
          }}
          onInput={(event) => {
            windowMs.value = valueAt(Number(event.currentTarget.value), RANGE);
          }}
        />
      </div>
    </div>
  );
}
