/** Axis: ticks with units at the left or bottom of a chart, and grid lines. */
import type { Scale } from "./scale.ts";

interface AxisProps {
  readonly scale: Scale;
  /** The values of the ticks, for example `scale.ticks(5)` or the ticks of a `timeAxis`. */
  readonly ticks: readonly number[];
  readonly format: (value: number) => string;
}

interface LeftAxisProps extends AxisProps {
  readonly left: number;
  /** Where the grid lines end. */
  readonly right: number;
}

export function LeftAxis({ scale, ticks, format, left, right }: LeftAxisProps) {
  return (
    <g class="axis">
      {ticks.map((value) => (
        <g key={value} transform={`translate(0 ${round(scale(value))})`}>
          <line x1={left} x2={right} class={value === 0 ? "rule base" : "rule"} />
          <text x={left - 8} dy="0.32em" class="tick end">
            {format(value)}
          </text>
        </g>
      ))}
    </g>
  );
}

interface BottomAxisProps extends AxisProps {
  readonly bottom: number;
  /** Where the grid lines start. Absent: short ticks only. */
  readonly top?: number;
}

export function BottomAxis({ scale, ticks, format, bottom, top }: BottomAxisProps) {
  return (
    <g class="axis">
      {ticks.map((value) => (
        <g key={value} transform={`translate(${round(scale(value))} 0)`}>
          <line y1={top ?? bottom} y2={bottom + 4} class="rule" />
          <text y={bottom + 18} class={`tick ${anchorOf(value, scale)}`}>
            {format(value)}
          </text>
        </g>
      ))}
    </g>
  );
}

/** Keeps the labels at both ends inside the chart. */
function anchorOf(value: number, { domain: [low, high] }: Scale): string {
  if (value === high) return "end";
  return value === low ? "start" : "middle";
}

/** Rounds to hundredths of a pixel, to keep the SVG short. */
export function round(pixel: number): number {
  return Math.round(pixel * 100) / 100;
}
