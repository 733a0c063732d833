/** Strategy: the shape of a policy's waits as one word, and a policy given another shape. */
import { type PolicyDocument, resolvePolicy } from "@redrive/core";
import { type CallsDocument, strategyDocument } from "@redrive/simulator";
import { merged, policyOf, withPolicy } from "./document.ts";

/** In the order of the menu. */
export const strategyLabels: Readonly<Record<string, string>> = {
  full: "exponential, full jitter",
  equal: "exponential, equal jitter",
  decorrelated: "decorrelated jitter",
  none: "exponential, no jitter",
  linear: "linear, no jitter",
  fixed: "fixed, no jitter",
  immediate: "at once, no wait",
};

/** The word for a policy's waits; empty if it has a shape of its own. */
export function strategyOf(document: PolicyDocument): string {
  const { backoff, jitterType, initialDelayMs, delaysMs } = resolvePolicy(document);
  if (delaysMs !== undefined) return "";
  if (backoff === "EXPONENTIAL") {
    const word = jitterType.toLowerCase();
    return Object.hasOwn(strategyLabels, word) ? word : "";
  }
  if (jitterType !== "NONE") return "";
  if (backoff === "FIXED") return initialDelayMs === 0 ? "immediate" : "fixed";
  return "linear";
}

/** What another strategy may leave out. */
const CLEARED = {
  backoff: undefined,
  jitterType: undefined,
  jitterRatio: undefined,
  delaysMs: undefined,
} as const;

/** The scenario with the waits of a layer in another shape. */
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

/** Attempts, spans and limits stay; only how the waits grow and are spread changes. */
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
