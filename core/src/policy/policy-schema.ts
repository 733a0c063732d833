/**
 * Policy schema: the policy document as JSON Schema, for the service's API description and the web
 * form. Ranges come from the table that validates and defaults from the code that completes, so
 * none can drift; only the sentences are written here. Documentation: `checkPolicy` alone judges.
 */

import { type JsonSchema, schemaOf } from "../documents/rule-schema.ts";
import { POLICY_FIELDS, type PolicyDocument, resolvePolicy } from "./policy.ts";

const SENTENCES: Readonly<Record<keyof PolicyDocument, string>> = {
  policyId: "Name of the policy; required in the service.",
  description: "Why these numbers, and for which operations.",
  maxAttempts: "Calls in total: the first counts too.",
  backoff: "How the ceiling of the wait grows from attempt to attempt.",
  initialDelayMs: "Ceiling of the wait after the first failure, in ms.",
  multiplier: "Growth of the exponential per attempt.",
  maxDelayMs: "No ceiling exceeds this, in ms; at least initialDelayMs.",
  jitterType:
    "How chance picks the wait below its ceiling. DECORRELATED goes only with EXPONENTIAL.",
  jitterRatio: "For PROPORTIONAL: the wait is uniform in ceiling x (1 - r .. 1 + r).",
  delaysMs: "Ceilings one by one instead of a curve, in ms; maxAttempts is then entries + 1.",
  totalBudgetMs:
    "All attempts and waits together, in ms. Runs on through pauses and open breakers.",
  attemptTimeoutMs: "One attempt, wall to wall, in ms.",
  connectTimeoutMs: "Connecting, within the attempt, in ms.",
  minCallMs: "Floor of the estimated call in the check of the total budget, in ms.",
  retryableStatusCodes: "HTTP statuses worth repeating.",
  retryableGrpcCodes: "Codes of gRPC worth repeating.",
  retryableErrors: "Classes of errors worth repeating.",
  throttleDelayMs: "First ceiling after a throttling answer (429, RESOURCE_EXHAUSTED), in ms.",
  requireIdempotencyKey: "Refuse a call or task that has no idempotency key.",
  respectRetryAfter: "Wait as long as the other side asks.",
  maxRetryAfterMs: "A longer hint is unreasonable and counts as this, in ms.",
};

/** The policy document as JSON Schema (2020-12). */
export function policySchema(): JsonSchema {
  const defaults: Readonly<Record<string, unknown>> = { ...resolvePolicy({}) };
  const properties = Object.entries(SENTENCES).map(([name, description]) => {
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
