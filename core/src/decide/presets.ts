/**
 * Presets: policies for common kinds of operations, selected by one word. They are plain documents:
 * copy one, change a number and give it your own name. A bundle that only uses the numbers of presets does
 * not include their descriptions.
 */
import { quote, RedriveError } from "../documents/errors.ts";
import { nearestName } from "../documents/nearest-name.ts";
import { ERROR_CLASSES, type PolicyDocument, statusRange } from "./policy.ts";

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
    // The default, and 409: another request with the same key is in progress.
    retryableStatusCodes: [408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529],
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

const DESCRIPTIONS: Readonly<Record<PresetName, string>> = {
  default:
    "Calls between services: all defaults. Five attempts from 100 ms outlast most failures of half a second; the call ends within 30 s.",
  interactive:
    "Calls that a person waits for. Three attempts of at most 1.5 s and both waits fit into 5 s; then an error is better than a longer wait.",
  read: "Reads that are cheap to repeat. One attempt more than interactive and time for a slow replica: four attempts of at most 3 s and all waits fit into 15 s.",
  payment:
    "Writes that must not happen twice: charges, orders, transfers. Refused without an idempotency key. Slow networks get 15 s per attempt; three attempts fit into 60 s. 409 is retried: servers send it while the same key is in progress.",
  background:
    "Work that nobody waits for; the service's default. Ceilings triple from 1 s and reach 1 h at the ninth wait. At least 1 h 57 min pass before the twelfth attempt, as no wait is below half its ceiling. 24 h leave time for holds and Retry-After.",
  webhook:
    "Webhooks to a receiver that somebody else runs. The schedule of Standard Webhooks: ten attempts over three days, in which people can repair it. Jitter is plus or minus 10 %: FULL could turn a wait of ten hours into minutes. Everything except 2xx and 410 (Gone) is retried.",
};

export const presets: Readonly<Record<PresetName, PolicyDocument>> =
  /* @__PURE__ */ Object.fromEntries(
    /* @__PURE__ */ Object.entries(DESCRIPTIONS).map(([name, description]) => {
      const { policyId, ...numbers } = presetPolicies[name as PresetName];
      return [name, { policyId, description, ...numbers }];
    }),
  ) as Record<PresetName, PolicyDocument>;

/** The preset of that name; throws `INVALID_ARGUMENT` for any other name. */
export function preset(name: string): PolicyDocument {
  if (Object.hasOwn(presets, name)) return presets[name as PresetName];
  const names = Object.keys(presets);
  const near = nearestName(String(name), names);
  const hint = near === undefined ? `one of ${names.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown preset ${quote(name)}, ${hint}`);
}
