/** Scale: from values to pixels, evenly or by logarithm, with ticks at round values. */

export interface Scale {
  (value: number): number;
  /** The value at a pixel; within the domain. */
  invert(pixel: number): number;
  readonly domain: readonly [number, number];
  readonly range: readonly [number, number];
  ticks(most: number): readonly number[];
}

type Pair = readonly [number, number];

export function linearScale(domain: Pair, range: Pair): Scale {
  return scaleOf(
    domain,
    range,
    (value) => value,
    (way) => way,
    linearTicks,
  );
}

/**
 * By logarithm, but with room for 0: below `from` (default 1) the way is even. Waits of 0 ms are
 * common with full jitter, and a chart that loses them lies.
 */
export function logScale(domain: Pair, range: Pair, from = 1): Scale {
  const forth = (value: number) => (value <= from ? value / from : 1 + Math.log10(value / from));
  const back = (way: number) => (way <= 1 ? way * from : from * 10 ** (way - 1));
  return scaleOf(domain, range, forth, back, (pair) => logTicks(pair, from));
}

function scaleOf(
  domain: Pair,
  range: Pair,
  forth: (value: number) => number,
  back: (way: number) => number,
  ticks: (domain: Pair, most: number) => readonly number[],
): Scale {
  const [low, high] = [forth(domain[0]), forth(domain[1])];
  const [start, end] = range;
  const scale = (value: number) =>
    high === low ? start : start + ((forth(value) - low) / (high - low)) * (end - start);
  const invert = (pixel: number) => {
    const way = end === start ? 0 : (pixel - start) / (end - start);
    return back(low + Math.min(1, Math.max(0, way)) * (high - low));
  };
  return Object.assign(scale, {
    invert,
    domain,
    range,
    ticks: (most: number) => ticks(domain, most),
  });
}

/** Multiples of 1, 2 or 5 times a power of ten. */
export function linearTicks([low, high]: Pair, most: number): readonly number[] {
  if (!(high > low)) return [low];
  const step = niceStep((high - low) / Math.max(1, most));
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

/** The domain's end rounded up, so that the highest mark has air above it. */
export function niceMax(value: number, steps = 4): number {
  if (!(value > 0)) return 1;
  const step = niceStep(value / steps);
  return Math.ceil(value / step - 1e-9) * step;
}
