/**
 * Preset policies: the numbers of the presets, without their descriptions. A program that only uses a
 * preset does not include the descriptions.
 */
import { ERROR_CLASSES } from "./error-classes.ts";
import type { PolicyDocument } from "./policy.ts";
import { statusRange } from "./status-range.ts";

export type PresetName = "default" | "interactive" | "read" | "payment" | "background" | "webhook";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

export const presetPolicies: Readonly<Record<PresetName, PolicyDocument>> = {
  default: { policyId: "default" },

  interactive: {
    policyId: "interactive",
    maxAttempts: 3,
    initialDelayMs: 50,
    maxDelayMs: 500,
    totalBudgetMs: 5 * SECOND_MS,
    attemptTimeoutMs: 1500,
    connectTimeoutMs: SECOND_MS,
  },

  read: {
    policyId: "read",
    maxAttempts: 4,
    initialDelayMs: 100,
    maxDelayMs: 2 * SECOND_MS,
    totalBudgetMs: 15 * SECOND_MS,
    attemptTimeoutMs: 3 * SECOND_MS,
  },

  payment: {
    policyId: "payment",
    maxAttempts: 3,
    initialDelayMs: 500,
    maxDelayMs: 5 * SECOND_MS,
    totalBudgetMs: MINUTE_MS,
    attemptTimeoutMs: 15 * SECOND_MS,
    retryableStatusCodes: [408, 409, 425, 429, 500, 502, 503, 504],
    requireIdempotencyKey: true,
  },

  background: {
    policyId: "background",
    maxAttempts: 12,
    initialDelayMs: SECOND_MS,
    multiplier: 3,
    maxDelayMs: HOUR_MS,
    jitterType: "EQUAL",
    totalBudgetMs: 24 * HOUR_MS,
    attemptTimeoutMs: 30 * SECOND_MS,
  },

  webhook: {
    policyId: "webhook",
    delaysMs: [
      5 * SECOND_MS,
      5 * MINUTE_MS,
      30 * MINUTE_MS,
      2 * HOUR_MS,
      5 * HOUR_MS,
      10 * HOUR_MS,
      14 * HOUR_MS,
      20 * HOUR_MS,
      24 * HOUR_MS,
    ],
    jitterType: "PROPORTIONAL",
    jitterRatio: 0.1,
    totalBudgetMs: 96 * HOUR_MS,
    attemptTimeoutMs: 15 * SECOND_MS,
    retryableStatusCodes: statusRange(300, 599).filter((status) => status !== 410),
    retryableErrors: ERROR_CLASSES,
  },
};

/** The document of a policy or of a preset's name. */
export function policyDocumentOf(policy: PolicyDocument | PresetName): PolicyDocument {
  return typeof policy === "string" ? presetPolicies[policy] : policy;
}
