/**
 * Policy schema: the policy document as JSON Schema, for the service's API description and the web
 * form. Ranges come from the validation table and defaults from `resolvePolicy`, so they always
 * agree. Only the descriptions are written here. Only `checkPolicy` decides what is valid, and a program
 * that only checks documents does not include this file.
 */

import type { Rule } from "../documents/document.ts";
import { POLICY_FIELDS, type PolicyDocument, resolvePolicy } from "./policy.ts";

const DESCRIPTIONS: Readonly<Record<keyof PolicyDocument, string>> = {
  policyId: "Name of the policy; required in the service.",
  description: "Why these numbers, and for which operations.",
  maxAttempts: "Total number of calls, including the first.",
  backoff: "How the ceiling of the wait grows from attempt to attempt.",
  initialDelayMs: "Ceiling of the wait after the first failure, in ms.",
  multiplier: "Growth factor of EXPONENTIAL per attempt.",
  maxDelayMs: "Maximum of every ceiling, in ms; at least initialDelayMs.",
  jitterType: "How the random wait is picked below its ceiling. DECORRELATED requires EXPONENTIAL.",
  jitterRatio: "For PROPORTIONAL: the wait is uniform in ceiling x (1 - r .. 1 + r).",
  delaysMs: "Explicit ceilings instead of a curve, in ms; maxAttempts is then entries + 1.",
  totalBudgetMs:
    "All attempts and waits together, in ms. Keeps running during pauses and open breakers.",
  attemptTimeoutMs: "One attempt, from start to end, in ms.",
  connectTimeoutMs: "Connecting, within the attempt, in ms.",
  minCallMs: "Minimum duration of a call that the budget check assumes, in ms.",
  retryableStatusCodes: "HTTP statuses that are retried.",
  retryableGrpcCodes: "Codes of gRPC that are retried.",
  retryableErrors: "Classes of errors that are retried.",
  throttleDelayMs: "First ceiling after a throttling response (429, RESOURCE_EXHAUSTED), in ms.",
  requireIdempotencyKey: "Refuse a call or task that has no idempotency key.",
  respectRetryAfter: "Wait as long as the server asks.",
  maxRetryAfterMs: "Longer hints are clamped to this, in ms.",
};

/** The policy document as JSON Schema (2020-12). */
export function policySchema(): JsonSchema {
  const defaults: Readonly<Record<string, unknown>> = { ...resolvePolicy({}) };
  const properties = Object.entries(DESCRIPTIONS).map(([name, description]) => {
    const fallback = name in defaults ? { default: defaults[name] } : {};
    const rule = POLICY_FIELDS[name as keyof PolicyDocument];
    return [name, { description, ...schemaOf(rule), ...fallback }] as const;
  });
  return {
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(properties),
  };
}

/** The part of JSON Schema (2020-12) that rules need. */
type JsonSchema = Readonly<Record<string, unknown>>;

/** The first argument of a rule identifies its kind: each kind starts with another type. */
function schemaOf({ parts = [] }: Rule): JsonSchema {
  const [first, min, max] = parts;
  switch (typeof first) {
    case "undefined":
      return { type: "boolean" };
    case "number":
      return { type: max ? "number" : "integer", minimum: first, maximum: min };
    case "string":
      return { enum: parts };
    case "function":
      return { type: "array", items: schemaOf(first as Rule), minItems: min, maxItems: max };
    default:
      return { type: "string", pattern: (first as RegExp).source };
  }
}
