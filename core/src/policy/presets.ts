/**
 * Presets: policies for common kinds of operations, selected by one word. They are plain documents:
 * copy one, change a number and give it your own name.
 */

import { nearestName } from "../documents/nearest-name.ts";
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";
import type { PolicyDocument } from "./policy.ts";
import { type PresetName, presetPolicies } from "./preset-policies.ts";

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

export const presets: Readonly<Record<PresetName, PolicyDocument>> = Object.fromEntries(
  Object.entries(DESCRIPTIONS).map(([name, description]) => {
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
