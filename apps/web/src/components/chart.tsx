/**
 * Chart: an SVG that fills the available width, with a title and a description for screen readers.
 * Its parts are axes, scales from values to pixels, and a legend.
 */
import { type Signal, useSignal } from "@preact/signals";
import { formatDuration, formatNumber } from "@redrive/core";
import type { ComponentChildren, Ref } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface ChartProps {
  /** For example "Waits of 8 attempts". */
  readonly title: string;
  /** The figures that the chart shows, as text. */
  readonly description: string;
  /** In pixels, or as a function of the width, if narrow pages need more height. */
  readonly height: number | ((width: number) => number);
  /** The SVG element, for exports. */
  readonly svgRef?: Ref<SVGSVGElement>;
  /** True if parts of the chart can be moved. Its role is then "group" instead of "img". */
  readonly isInteractive?: boolean;
  readonly children: (width: number) => ComponentChildren;
}

export function Chart(props: ChartProps) {
  const { title, description, svgRef, isInteractive = false, children } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const height =
    typeof props.height === "number" ? props.height : props.height(Math.max(1, width.value));
  useLayoutEffect(() => watchWidth(box.current, width), [width]);
  return (
    <div ref={box} class="chart" style={{ minHeight: `${height}px` }}>
      {width.value > 0 && (
        <svg
          ref={svgRef ?? null}
          width={width.value}
          height={height}
          viewBox={`0 0 ${width.value} ${height}`}
          role={isInteractive ? "group" : "img"}
          aria-label={`${title}. ${description}`}
        >
          <title>{title}</title>
          {children(width.value)}
        </svg>
      )}
    </div>
  );
}

function watchWidth(element: HTMLElement | null, width: Signal<number>): (() => void) | undefined {
  if (element === null) return undefined;
  const measure = () => {
    width.value = Math.floor(element.clientWidth);
  };
  measure();
  const observer = new ResizeObserver(measure);
  observer.observe(element);
  return () => observer.disconnect();
}

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

/** Ticks with units at the left or bottom of a chart, and grid lines. */
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

interface LegendEntry {
  /** A CSS class of the chart, which gives the color and shape. */
  readonly mark: string;
  readonly label: string;
}

/** Explains the marks of a chart. */
export function Legend({ entries }: { readonly entries: readonly LegendEntry[] }) {
  return (
    <ul class="legend">
      {entries.map(({ mark, label }) => (
        <li key={label}>
          <svg width="14" height="10" aria-hidden="true">
            <rect x="0" y="1" width="14" height="8" rx="2" class={mark} />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}

// Scale: maps values to pixels, linearly or logarithmically, with ticks at round values.

export interface Scale {
  (value: number): number;
  /** The value at a pixel, clamped to the domain. */
  invert(pixel: number): number;
  readonly domain: readonly [number, number];
  readonly range: readonly [number, number];
  ticks(maxTicks: number): readonly number[];
}

type Pair = readonly [number, number];

export function linearScale(domain: Pair, range: Pair): Scale {
  return scaleOf(
    domain,
    range,
    (value) => value,
    (fraction) => fraction,
    linearTicks,
  );
}

/**
 * Logarithmic, but linear below `from` (default 1), so that 0 has a position. Full jitter often draws
 * waits of 0 ms, and the chart must show them.
 */
export function logScale(domain: Pair, range: Pair, from = 1): Scale {
  const transform = (value: number) =>
    value <= from ? value / from : 1 + Math.log10(value / from);
  const inverse = (fraction: number) =>
    fraction <= 1 ? fraction * from : from * 10 ** (fraction - 1);
  return scaleOf(domain, range, transform, inverse, (pair) => logTicks(pair, from));
}

function scaleOf(
  domain: Pair,
  range: Pair,
  transform: (value: number) => number,
  inverse: (fraction: number) => number,
  ticks: (domain: Pair, maxTicks: number) => readonly number[],
): Scale {
  const [low, high] = [transform(domain[0]), transform(domain[1])];
  const [start, end] = range;
  const scale = (value: number) =>
    high === low ? start : start + ((transform(value) - low) / (high - low)) * (end - start);
  const invert = (pixel: number) => {
    const fraction = end === start ? 0 : (pixel - start) / (end - start);
    return inverse(low + Math.min(1, Math.max(0, fraction)) * (high - low));
  };
  return Object.assign(scale, {
    invert,
    domain,
    range,
    ticks: (maxTicks: number) => ticks(domain, maxTicks),
  });
}

/** Multiples of 1, 2 or 5 times a power of ten. */
export function linearTicks([low, high]: Pair, maxTicks: number): readonly number[] {
  if (!(high > low)) return [low];
  const step = niceStep((high - low) / Math.max(1, maxTicks));
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) =>
    Number(((first + index) * step).toPrecision(12)),
  );
}

export function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5].find((each) => each * power >= rough * (1 - 1e-9)) ?? 10;
  return factor * power;
}

function logTicks([low, high]: Pair, from: number): readonly number[] {
  const tens: number[] = low <= 0 ? [0] : [];
  for (let value = from; value <= high; value *= 10) if (value >= low) tens.push(value);
  return tens;
}

/** The end of the domain, rounded up, so that there is space above the highest mark. */
export function niceMax(value: number, steps = 4): number {
  if (!(value > 0)) return 1;
  const step = niceStep(value / steps);
  return Math.ceil(value / step - 1e-9) * step;
}

// Time axis: ticks at round durations, in the unit that fits the longest one, or on a logarithmic
// scale.

const UNITS = [
  { unit: "d", ms: 86_400_000, fromMs: 4 * 86_400_000 },
  { unit: "h", ms: 3_600_000, fromMs: 4 * 3_600_000 },
  { unit: "min", ms: 60_000, fromMs: 4 * 60_000 },
  { unit: "s", ms: 1000, fromMs: 1000 },
  { unit: "ms", ms: 1, fromMs: 0 },
] as const;

export interface TimeAxis {
  /** The end of the axis: a round value, at least the longest duration. */
  readonly endMs: number;
  ticks(maxTicks: number): readonly number[];
  format(ms: number): string;
}

/** An axis from 0 to at least `maxMs`. */
export function timeAxis(maxMs: number): TimeAxis {
  const { unit, ms: unitMs } = UNITS.find(({ fromMs }) => maxMs >= fromMs) ?? UNITS[4];
  const endMs = niceMax(maxMs / unitMs) * unitMs;
  return {
    endMs,
    ticks: (maxTicks) => linearTicks([0, endMs / unitMs], maxTicks).map((value) => value * unitMs),
    format: (ms) => `${formatUnits(ms / unitMs)} ${unit}`,
  };
}

/** About a factor of ten apart, at durations that have short names. */
const LOG_TICKS_MS = [
  1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 172_800_000, 1_728_000_000,
];

/** The ticks of a logarithmic axis that is linear from 0 to `fromMs`. */
export function logTimeTicks(fromMs: number, endMs: number): readonly number[] {
  return [0, ...LOG_TICKS_MS.filter((ms) => ms >= fromMs && ms <= endMs)];
}

/** Each tick of a logarithmic axis has its own unit. */
export function formatLogTick(ms: number): string {
  return ms === 0 ? "0" : formatDuration(ms);
}

/** Keeps three significant digits below 1, for example 0.005. */
function formatUnits(value: number): string {
  return value < 1 ? String(Number(value.toPrecision(3))) : formatNumber(value);
}
