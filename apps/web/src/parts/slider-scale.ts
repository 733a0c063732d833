/** Slider scale: where a value lies on a slider, evenly or by its logarithm, and back. */

export interface SliderRange {
  readonly min: number;
  readonly max: number;
  /** Evenly, or so that each tenfold takes the same way; from 0 on, the first step is 1. */
  readonly scale?: "linear" | "log";
  /** Values are whole multiples of it. Default: 1. */
  readonly step?: number;
}

/** Steps of a logarithmic slider from end to end. */
export const LOG_STEPS = 1000;

/** 0 to `LOG_STEPS` on a logarithmic slider. */
export function positionOf(value: number, { min, max }: SliderRange): number {
  if (value <= min) return 0;
  const from = Math.log(Math.max(1, min));
  const way = (Math.log(Math.max(1, value)) - from) / (Math.log(max) - from);
  return Math.min(LOG_STEPS, Math.max(min === 0 ? 1 : 0, Math.round(way * LOG_STEPS)));
}

/** The value there, with two digits that count: 1,200 rather than 1,187. */
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
