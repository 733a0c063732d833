/**
 * Jitter: where chance picks a wait below its ceiling. All picks are uniform over whole
 * milliseconds, ends included, so that a herd is spread without holes and without piles.
 */
import type { Policy } from "./policy.ts";

/** Picks a wait; `draw` is in [0, 1), `firstMs` the curve's first ceiling, `previousMs` the wait before. */
export type Jitter = (
  ceilingMs: number,
  draw: number,
  firstMs: number,
  previousMs: number,
) => number;

/** Invariant: a whole wait from 0 to the ceiling; PROPORTIONAL alone may reach (1 + ratio) times it. */
export function jitterOf({ jitterType, jitterRatio, maxDelayMs = 0 }: Policy): Jitter {
  return (ceilingMs, draw, firstMs, previousMs) => {
    const spreadMs = Math.floor(ceilingMs * jitterRatio);
    switch (jitterType) {
      case "NONE":
        return ceilingMs;
      case "FULL":
        return uniformInteger(0, ceilingMs, draw);
      case "EQUAL":
        return uniformInteger(Math.floor(ceilingMs / 2), ceilingMs, draw);
      case "PROPORTIONAL":
        return uniformInteger(ceilingMs - spreadMs, ceilingMs + spreadMs, draw);
      case "DECORRELATED": {
        // The cap bounds the range that is drawn from, not the draw: no pile on the cap.
        const topMs = Math.min(maxDelayMs, Math.max(firstMs, previousMs) * 3);
        return uniformInteger(firstMs, Math.max(firstMs, topMs), draw);
      }
    }
  };
}

/** Uniform over the whole numbers from `low` to `high`, both included. */
export function uniformInteger(low: number, high: number, draw: number): number {
  return Math.min(high, low + Math.floor(draw * (high - low + 1)));
}
