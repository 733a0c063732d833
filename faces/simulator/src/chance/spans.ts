/**
 * Spans: how long things take in a simulated world, as a distribution written in JSON and a
 * sampler made from it. Every sampler uses + - * / only, through `numeric.ts`.
 */
import {
  checkFields,
  type Fields,
  isObject,
  numberRule,
  type Problem,
  problem,
} from "@redrive/core";
import { type Draws, nextDraw } from "./draws.ts";
import { nextNormal } from "./normal.ts";
import { exp, ln } from "./numeric.ts";

/** A span in ms as people write it: a number is a fixed span. */
export type SpanDocument =
  | number
  | { readonly kind: "FIXED"; readonly ms: number }
  | { readonly kind: "UNIFORM"; readonly minMs: number; readonly maxMs: number }
  | { readonly kind: "EXPONENTIAL"; readonly meanMs: number }
  /** The absolute value of a normal: never negative. */
  | { readonly kind: "NORMAL"; readonly meanMs: number; readonly sdMs: number }
  | { readonly kind: "LOGNORMAL"; readonly medianMs: number; readonly sigma: number };

/** Draws one span; ms, not necessarily whole. */
export type Span = (draws: Draws) => number;

const msRule = numberRule(0, 86_400_000, true);

const SPAN_FIELDS: Readonly<Record<string, Fields>> = {
  FIXED: { ms: msRule },
  UNIFORM: { minMs: msRule, maxMs: msRule },
  EXPONENTIAL: { meanMs: msRule },
  NORMAL: { meanMs: msRule, sdMs: msRule },
  LOGNORMAL: { medianMs: msRule, sigma: numberRule(0, 5, true) },
};

/** Everything wrong with a span at `field`. */
export function checkSpan(value: unknown, field: string): Problem[] {
  if (typeof value === "number") {
    const wanted = msRule(value);
    return wanted === undefined ? [] : [problem(field, value, `${field} must be ${wanted}`)];
  }
  const kinds = Object.keys(SPAN_FIELDS).join(", ");
  if (!isObject(value)) {
    return [
      problem(field, value, `${field} must be a number of ms or an object with kind ${kinds}`),
    ];
  }
  const { kind, ...rest } = value;
  const fields = typeof kind === "string" ? SPAN_FIELDS[kind] : undefined;
  if (fields === undefined) {
    return [problem(`${field}.kind`, kind, `${field}.kind must be one of ${kinds}`)];
  }
  const problems = checkFields(rest, fields, `${field}.`);
  for (const name of Object.keys(fields)) {
    if (rest[name] !== undefined) continue;
    problems.push(problem(`${field}.${name}`, undefined, `${field}.${name} must be given`));
  }
  return problems;
}

export function spanOf(document: SpanDocument): Span {
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

/** The mean of a span, for estimates in verdicts. */
export function meanOf(document: SpanDocument): number {
  if (typeof document === "number") return document;
  switch (document.kind) {
    case "FIXED":
      return document.ms;
    case "UNIFORM":
      return (document.minMs + document.maxMs) / 2;
    case "EXPONENTIAL":
    case "NORMAL":
      return document.meanMs;
    case "LOGNORMAL":
      return document.medianMs * exp((document.sigma * document.sigma) / 2);
  }
}

/** Exponential with mean 1. The draw is below 1, so the logarithm is finite. */
export function exponential(draws: Draws): number {
  return -ln(1 - nextDraw(draws.state));
}
