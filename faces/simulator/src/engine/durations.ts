/**
 * Durations: how long things take in a simulated world, as a distribution in JSON and a sampler for
 * it. Every sampler uses + - * / only, through `numeric.ts`.
 */
import { type Draws, nextDraw } from "./draws.ts";
import { exp, ln, root } from "./numeric.ts";

/** A duration in ms. A number is a fixed duration. */
export type DurationDocument =
  | number
  | { readonly kind: "FIXED"; readonly ms: number }
  | { readonly kind: "UNIFORM"; readonly minMs: number; readonly maxMs: number }
  | { readonly kind: "EXPONENTIAL"; readonly meanMs: number }
  /** The absolute value of a normal draw, so never negative. */
  | { readonly kind: "NORMAL"; readonly meanMs: number; readonly sdMs: number }
  | { readonly kind: "LOGNORMAL"; readonly medianMs: number; readonly sigma: number };

/** Draws one duration in ms, not necessarily whole. */
export type DurationSampler = (draws: Draws) => number;

export function durationSampler(document: DurationDocument): DurationSampler {
  if (typeof document === "number") return () => document;
  switch (document.kind) {
    case "FIXED":
      return () => document.ms;
    case "UNIFORM":
      return (draws) => document.minMs + (document.maxMs - document.minMs) * nextDraw(draws.state);
    case "EXPONENTIAL":
      return (draws) => document.meanMs * exponential(draws);
    case "NORMAL":
      return (draws) => Math.abs(document.meanMs + document.sdMs * nextNormal(draws.state));
    case "LOGNORMAL":
      return (draws) => document.medianMs * exp(document.sigma * nextNormal(draws.state));
  }
}

/** Exponential with mean 1. The draw is below 1, so the logarithm is finite. */
export function exponential(draws: Draws): number {
  return -ln(1 - nextDraw(draws.state));
}

// Normal: standard normal draws by the ziggurat of Marsaglia and Tsang (2000) in Doornik's form
// (2005), exact in distribution. Only one draw in a hundred needs more than a product and a
// comparison. Our own logarithm and root compute the tables, so they are the same in every
// JavaScript engine.

const LAYERS = 128;
/** Where the tail begins, and the area of each layer. */
const TAIL = 3.442619855899;
const AREA = 0.00991256303526217;

/**
 * Edges of the layers from the widest (which also represents the tail) to 0, and their quotients.
 */
const edges = new Float64Array(LAYERS + 1);
const quotients = new Float64Array(LAYERS);
/** The curve's height at each edge. */
const heights = new Float64Array(LAYERS + 1);

function density(x: number): number {
  return exp(-0.5 * x * x);
}

edges[0] = AREA / density(TAIL);
edges[1] = TAIL;
for (let layer = 2; layer < LAYERS; layer++) {
  const above = edges[layer - 1] as number;
  edges[layer] = root(-2 * ln(AREA / above + density(above)));
}
for (let layer = 0; layer < LAYERS; layer++) {
  quotients[layer] = (edges[layer + 1] as number) / (edges[layer] as number);
}
for (let edge = 0; edge <= LAYERS; edge++) heights[edge] = density(edges[edge] as number);

/** One draw from the standard normal; `state` is a stream's, see `draws.ts`. */
export function nextNormal(state: Int32Array): number {
  for (;;) {
    // Seven bits of a draw choose the layer, the other 25 the position in it.
    const scaled = nextDraw(state) * LAYERS;
    const layer = Math.floor(scaled);
    const side = 2 * (scaled - layer) - 1;
    if (Math.abs(side) < (quotients[layer] as number)) return side * (edges[layer] as number);
    if (layer === 0) return side < 0 ? -nextTail(state) : nextTail(state);
    const x = side * (edges[layer] as number);
    if (isBelow(x, layer, nextDraw(state))) return x;
  }
}

/** True if the point at `x`, at height `draw` (0 to 1) within its layer, is under the curve. */
function isBelow(x: number, layer: number, draw: number): boolean {
  const top = heights[layer + 1] as number;
  return top + draw * ((heights[layer] as number) - top) < density(x);
}

/** A draw from the tail beyond TAIL (Marsaglia 1964). */
function nextTail(state: Int32Array): number {
  for (;;) {
    const x = -ln(1 - nextDraw(state)) / TAIL;
    const y = -ln(1 - nextDraw(state));
    if (2 * y >= x * x) return TAIL + x;
  }
}
