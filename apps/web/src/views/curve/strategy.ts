/** Strategy: maps the strategy buttons of the curve to policy documents and back. */
import { type JitterType, type PolicyDocument, resolvePolicy } from "@redrive/core";

export type StrategyId =
  | "fixed"
  | "linear"
  | "exponential"
  | "full"
  | "equal"
  | "decorrelated"
  | "proportional"
  | "list";

export const strategyLabels: Readonly<Record<StrategyId, string>> = {
  full: "Full jitter",
  equal: "Equal jitter",
  decorrelated: "Decorrelated",
  proportional: "Proportional",
  exponential: "Exponential",
  linear: "Linear",
  fixed: "Fixed",
  list: "Custom list",
};

const JITTER_OF: Readonly<Record<string, JitterType>> = {
  full: "FULL",
  equal: "EQUAL",
  decorrelated: "DECORRELATED",
  proportional: "PROPORTIONAL",
  exponential: "NONE",
};

/** The first list when the reader switches to a custom list. */
const INITIAL_LIST = [100, 500, 2000, 8000];

/** The button for the document; undefined for a mix, such as linear with full jitter. */
export function strategyOf(document: PolicyDocument): StrategyId | undefined {
  const { delaysMs, backoff, jitterType } = resolvePolicy(document);
  if (delaysMs !== undefined) return "list";
  if (backoff === "LINEAR") return jitterType === "NONE" ? "linear" : undefined;
  if (backoff === "FIXED") return jitterType === "NONE" ? "fixed" : undefined;
  const ids = Object.keys(JITTER_OF) as StrategyId[];
  return ids.find((id) => JITTER_OF[id] === jitterType);
}

/** A readable name, for mixes too. */
export function strategyName(document: PolicyDocument): string {
  const id = strategyOf(document);
  if (id !== undefined) return strategyLabels[id];
  const { backoff, jitterType } = resolvePolicy(document);
  return `${backoff === "LINEAR" ? "Linear" : "Fixed"}, ${jitterType.toLowerCase()} jitter`;
}

/** The fields of a curve that a list of waits does not have. */
const CURVE_FIELDS = [
  "initialDelayMs",
  "multiplier",
  "maxDelayMs",
  "throttleDelayMs",
  "maxAttempts",
] as const;

export type CurveFields = Pick<PolicyDocument, (typeof CURVE_FIELDS)[number]>;

/** The fields that a switch to a list removes, so that the way back restores them. */
export function curveFieldsOf(document: PolicyDocument): CurveFields {
  const kept = CURVE_FIELDS.filter((name) => document[name] !== undefined);
  return Object.fromEntries(kept.map((name) => [name, document[name]])) as CurveFields;
}

/** The document with another strategy, without the fields that do not apply to it. */
export function withStrategy(document: PolicyDocument, id: StrategyId): PolicyDocument {
  const { delaysMs, backoff, jitterType, jitterRatio, ...rest } = document;
  if (id === "list") {
    const { initialDelayMs, multiplier, maxDelayMs, throttleDelayMs, maxAttempts, ...common } =
      rest;
    return { ...common, delaysMs: delaysMs ?? INITIAL_LIST, jitterType: "NONE" };
  }
  const attempts = delaysMs === undefined ? {} : { maxAttempts: delaysMs.length + 1 };
  if (id === "linear" || id === "fixed") {
    return {
      ...rest,
      ...attempts,
      backoff: id === "linear" ? "LINEAR" : "FIXED",
      jitterType: "NONE",
    };
  }
  const ratio = id === "proportional" && jitterRatio !== undefined ? { jitterRatio } : {};
  return { ...rest, ...attempts, ...ratio, jitterType: JITTER_OF[id] as JitterType };
}
