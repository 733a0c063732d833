/**
 * Durations: how long things take in a simulated world, as a distribution in JSON and a sampler for
 * it. Every sampler uses + - * / only, through `numeric.ts`.
 */
import { type Draws, nextDraw } from "./draws.ts";
import { nextNormal } from "./normal.ts";
import { exp, ln } from "./numeric.ts";

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
