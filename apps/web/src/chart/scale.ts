/** Scale: maps values to pixels, linearly or logarithmically, with ticks at round values. */

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
