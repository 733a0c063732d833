/**
 * Strategies: one curve in several ways, to be put side by side. `none` and `full` vary its jitter,
 * `linear` and `fixed` its growth; `immediate` does not wait at all.
 */
import {
  type BackoffKind,
  type JitterType,
  type PolicyDocument,
  RedriveError,
} from "@redrive/core";

const JITTERS: Readonly<Record<string, JitterType>> = {
  none: "NONE",
  full: "FULL",
  equal: "EQUAL",
  decorrelated: "DECORRELATED",
};

const BACKOFFS: Readonly<Record<string, BackoffKind>> = { linear: "LINEAR", fixed: "FIXED" };

/** Three retries at once: what a loop without a wait does. */
const IMMEDIATE: PolicyDocument = {
  maxAttempts: 4,
  backoff: "FIXED",
  initialDelayMs: 0,
  jitterType: "NONE",
};

export const strategyNames: readonly string[] = [
  ...Object.keys(JITTERS),
  ...Object.keys(BACKOFFS),
  "immediate",
];

/** More than this on one scale is a wall of charts. */
export const MAX_STRATEGIES = 6;

/** Throws unless so many can stand side by side; `where` says who named them. */
export function assertStrategyCount(where: string, count: number): void {
  if (count >= 1 && count <= MAX_STRATEGIES) return;
  const text = `${where} must name 1 to ${MAX_STRATEGIES} strategies, got ${count}`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

/** The curve in the way that the word says; undefined for a word that names no strategy. */
export function strategyDocument(name: string, curve: PolicyDocument): PolicyDocument | undefined {
  if (name === "immediate") return IMMEDIATE;
  const jitterType = Object.hasOwn(JITTERS, name) ? JITTERS[name] : undefined;
  if (jitterType !== undefined) return { ...curve, jitterType };
  const backoff = Object.hasOwn(BACKOFFS, name) ? BACKOFFS[name] : undefined;
  return backoff && { ...curve, backoff, jitterType: "NONE" };
}
