/** Axis: ticks with their units at the left or the bottom of a chart, and rules through it. */
import type { Scale } from "./scale.ts";

interface AxisProps {
  readonly scale: Scale;
  /** Where to put ticks; `scale.ticks(5)`, or those of a `timeAxis`. */
  readonly ticks: readonly number[];
  readonly format: (value: number) => string;
}

interface LeftAxisProps extends AxisProps {
  readonly left: number;
  /** Where the rules end. */
  readonly right: number;
}

export function LeftAxis({ scale, ticks, format: spell, left, right }: LeftAxisProps) {
  return (
    <g class="axis">
      {ticks.map((value) => (
        <g key={value} transform={`translate(0 ${round(scale(value))})`}>
          <line x1={left} x2={right} class={value === 0 ? "rule base" : "rule"} />
          <text x={left - 8} dy="0.32em" class="tick end">
            {spell(value)}
          </text>
        </g>
      ))}
    </g>
  );
}

interface BottomAxisProps extends AxisProps {
  readonly bottom: number;
  /** Where the rules begin; left out: short ticks. */
  readonly top?: number;
}

export function BottomAxis({ scale, ticks, format: spell, bottom, top }: BottomAxisProps) {
  return (
    <g class="axis">
      {ticks.map((value) => (
        <g key={value} transform={`translate(${round(scale(value))} 0)`}>
          <line y1={top ?? bottom} y2={bottom + 4} class="rule" />
          <text y={bottom + 18} class={`tick ${anchorOf(value, scale)}`}>
            {spell(value)}
          </text>
        </g>
      ))}
    </g>
  );
}

/** The words at the ends stay inside the picture. */
function anchorOf(value: number, { domain: [low, high] }: Scale): string {
  if (value === high) return "end";
  return value === low ? "start" : "middle";
}

/** Half a pixel is as fine as a screen draws. */
export function round(pixel: number): number {
  return Math.round(pixel * 100) / 100;
}
