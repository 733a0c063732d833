/**
 * Presets: policies for the common kinds of operations, so that a good choice is one word. They are
 * plain documents and ship as such: copy one, change a number, give it a name of your own.
 */
import { quote } from "./assert.ts";
import { nearest } from "./document.ts";
import { RedriveError } from "./errors.ts";
import { ERROR_CLASSES } from "./outcome.ts";
import type { PolicyDocument } from "./policy.ts";
import { statusRange } from "./status-range.ts";

export type PresetName = "default" | "interactive" | "read" | "payment" | "background" | "webhook";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

export const presets: Readonly<Record<PresetName, PolicyDocument>> = {
  default: {
    policyId: "default",
    description:
      "Calls between services that nobody has thought about yet: the table's own defaults. Five attempts from 100 ms on outlast most hiccups of half a second; 30 s in all end the rest.",
  },

  interactive: {
    policyId: "interactive",
    description:
      "Calls a person is waiting for. Three attempts of at most 1.5 s and both waits fit into 5 s, after which an honest error serves better than patience.",
    maxAttempts: 3,
    initialDelayMs: 50,
    maxDelayMs: 500,
    totalBudgetMs: 5 * SECOND_MS,
    attemptTimeoutMs: 1500,
    connectTimeoutMs: SECOND_MS,
  },

  read: {
    policyId: "read",
    description:
      "Reads that cost little to repeat and change nothing. One attempt more than interactive and room for a slow replica: four attempts of at most 3 s and all waits fit into 15 s.",
    maxAttempts: 4,
    initialDelayMs: 100,
    maxDelayMs: 2 * SECOND_MS,
    totalBudgetMs: 15 * SECOND_MS,
    attemptTimeoutMs: 3 * SECOND_MS,
  },

  payment: {
    policyId: "payment",
    description:
      "Writes that must not happen twice: charges, orders, transfers. Refused without an idempotency key. Slow networks get 15 s an attempt; three attempts fit into 60 s. 409 is retried, because it is how a server says that the same key is still at work.",
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
    description:
      "Work nobody waits for: what the service uses when told nothing. Ceilings triple from 1 s and reach 1 h by the ninth wait; as no wait is below half its ceiling, 1 h 57 min pass at least before the twelfth attempt. 24 h leave room for holds and Retry-After.",
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
    description:
      "Notices to a receiver somebody else runs. The schedule of Standard Webhooks: ten attempts over three days, in which people can repair it. Jitter is 10 % either way: FULL would turn a wait of ten hours into one of minutes. All but 2xx and 410 (Gone) is retried.",
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

/** The preset of that name; throws `INVALID_ARGUMENT` for any other name. */
export function preset(name: string): PolicyDocument {
  if (Object.hasOwn(presets, name)) return presets[name as PresetName];
  const names = Object.keys(presets);
  const near = nearest(String(name), names);
  const hint = near === undefined ? `one of ${names.join(", ")}` : `did you mean ${quote(near)}?`;
  throw new RedriveError("INVALID_ARGUMENT", `unknown preset ${quote(name)}, ${hint}`);
}
