/** Strategy: the backoff strategy of a policy as an id, and a policy with another strategy. */
import { type PolicyDocument, resolvePolicy } from "@redrive/core";
import { type CallsDocument, strategyDocument } from "@redrive/simulator";
import { merged, policyOf, withPolicy } from "./document.ts";

/** In menu order. */
export const strategyLabels: Readonly<Record<string, string>> = {
  full: "exponential, full jitter",
  equal: "exponential, equal jitter",
  decorrelated: "decorrelated jitter",
  none: "exponential, no jitter",
  linear: "linear, no jitter",
  fixed: "fixed, no jitter",
  immediate: "immediate, no wait",
};

/** The id of a policy's strategy; empty if it has a custom one. */
export function strategyOf(document: PolicyDocument): string {
  const { backoff, jitterType, initialDelayMs, delaysMs } = resolvePolicy(document);
  if (delaysMs !== undefined) return "";
  if (backoff === "EXPONENTIAL") {
    const id = jitterType.toLowerCase();
    return Object.hasOwn(strategyLabels, id) ? id : "";
  }
  if (jitterType !== "NONE") return "";
  if (backoff === "FIXED") return initialDelayMs === 0 ? "immediate" : "fixed";
  return "linear";
}

/** Fields to remove before another strategy is set. */
const CLEARED = {
  backoff: undefined,
  jitterType: undefined,
  jitterRatio: undefined,
  delaysMs: undefined,
} as const;

/** The scenario with another strategy on one layer. */
export function withLayerStrategy(
  document: CallsDocument,
  tier: number,
  name: string,
): CallsDocument {
  return withPolicy(document, tier, {
    ...CLEARED,
    ...withStrategy(policyOf(document, tier), name),
  });
}

const FIRST_WAIT_MS = 100;

/** Changes only growth and jitter; attempts, delays and limits stay. */
export function withStrategy(document: PolicyDocument, name: string): PolicyDocument {
  const curve = merged(document, {
    ...CLEARED,
    ...(document.initialDelayMs === 0 && { initialDelayMs: FIRST_WAIT_MS }),
    ...(document.delaysMs !== undefined && { maxAttempts: document.delaysMs.length + 1 }),
  });
  if (name === "immediate") {
    return { ...curve, backoff: "FIXED", initialDelayMs: 0, jitterType: "NONE" };
  }
  return strategyDocument(name, curve) ?? document;
}
