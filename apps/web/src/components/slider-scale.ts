/** Slider scale: converts between a value and its position on a linear or logarithmic slider. */

export interface SliderRange {
  readonly min: number;
  readonly max: number;
  /** Default: linear. A logarithmic scale that starts at 0 goes to 1 with its first step. */
  readonly scale?: "linear" | "log";
  /** Values are multiples of it. Default: 1. */
  readonly step?: number;
}

/** The number of steps of a logarithmic slider. */
export const LOG_STEPS = 1000;

/** The position on a logarithmic slider, 0 to `LOG_STEPS`. */
export function positionOf(value: number, { min, max }: SliderRange): number {
  if (value <= min) return 0;
  const from = Math.log(Math.max(1, min));
  const fraction = (Math.log(Math.max(1, value)) - from) / (Math.log(max) - from);
  return Math.min(LOG_STEPS, Math.max(min === 0 ? 1 : 0, Math.round(fraction * LOG_STEPS)));
}

/** The value at a position, with two significant digits: 1,200 instead of 1,187. */
export function valueAt(position: number, { min, max, step = 1 }: SliderRange): number {
  if (position <= 0) return min;
  if (position >= LOG_STEPS) return max;
  const from = Math.log(Math.max(1, min));
  const value = Math.exp(from + (position / LOG_STEPS) * (Math.log(max) - from));
  const rounded = Number(value.toPrecision(2));
  return clamp(Math.round(rounded / step) * step, { min, max });
}

export function clamp(value: number, { min, max }: SliderRange): number {
  return Math.min(max, Math.max(min, value));
}
