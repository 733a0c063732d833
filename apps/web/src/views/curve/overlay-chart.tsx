/** Overlay chart: the mean wait before each attempt, one line for each strategy. */
import { formatDuration } from "@redrive/core";
import { BottomAxis, LeftAxis, round } from "../../chart/axis.tsx";
import { Chart } from "../../chart/chart.tsx";
import { linearScale, logScale, type Scale } from "../../chart/scale.ts";
import { formatLogTick, logTimeTicks } from "../../chart/time-axis.ts";

export interface OverlayLine {
  readonly label: string;
  /** The mean wait before attempt 2, 3 and so on. */
  readonly waitsMs: readonly number[];
}

const HEIGHT = 260;
const TOP = 14;
const BOTTOM = HEIGHT - 30;
const LEFT = 56;
/** The axis is linear below this, so that waits of 0 have a place. */
const LOG_FROM_MS = 10;
/** More ticks of attempts would touch on a phone. */
const MAX_TICKS = 10;

/** The class of the line and of its entry in the legend. Dashes tell lines apart without color. */
export const lineClass = (index: number) => `overlay overlay-${index % 8}`;

export function OverlayChart({ lines }: { readonly lines: readonly OverlayLine[] }) {
  const longest = Math.max(1, ...lines.map(({ waitsMs }) => waitsMs.length));
  const endMs = Math.max(LOG_FROM_MS, ...lines.flatMap(({ waitsMs }) => waitsMs)) * 1.2;
  const y = logScale([0, endMs], [BOTTOM, TOP], LOG_FROM_MS);
  return (
    <Chart
      title="The mean wait before each attempt, by strategy"
      description={lines.map(describe).join(" ")}
      height={HEIGHT}
    >
      {(width) => {
        const x = linearScale([2, Math.max(3, longest + 1)], [LEFT + 6, width - 12]);
        return (
          <>
            <LeftAxis
              scale={y}
              ticks={logTimeTicks(LOG_FROM_MS, endMs)}
              format={formatLogTick}
              left={LEFT}
              right={width}
            />
            <BottomAxis scale={x} ticks={attemptTicks(x)} format={String} bottom={BOTTOM} />
            {lines.map(({ label, waitsMs }, index) => (
              <path key={label} d={pathOf(waitsMs, x, y)} class={lineClass(index)} />
            ))}
          </>
        );
      }}
    </Chart>
  );
}

function attemptTicks(x: Scale): readonly number[] {
  return x.ticks(MAX_TICKS).filter(Number.isInteger);
}

function pathOf(waitsMs: readonly number[], x: Scale, y: Scale): string {
  const points = waitsMs.map((ms, index) => `${round(x(index + 2))} ${round(y(ms))}`);
  return points.length === 0 ? "" : `M${points.join("L")}`;
}

function describe({ label, waitsMs }: OverlayLine): string {
  const last = waitsMs.at(-1);
  return last === undefined ? "" : `${label}: ${formatDuration(Math.round(last))} at the end.`;
}
