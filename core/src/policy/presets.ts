/**
 * Presets: policies for the common kinds of operations, so that a good choice is one word. They are
 * plain documents and ship as such: copy one, change a number, give it a name of your own.
 */

import { nearestName } from "../documents/document.ts";
import { quote } from "../errors/assert.ts";
import { RedriveError } from "../errors/errors.ts";
import type { PolicyDocument } from "./policy.ts";
import { type PresetName, presetPolicies } from "./preset-policies.ts";

const DESCRIPTIONS: Readonly<Record<PresetName, string>> = {
  default:
    "Calls between services that nobody has thought about yet: the table's own defaults. Five attempts from 100 ms on outlast most hiccups of half a second; 30 s in all end the rest.",
  interactive:
    "Calls a person is waiting for. Three attempts of at most 1.5 s and both waits fit into 5 s, after which an honest error serves better than patience.",
  read: "Reads that cost little to repeat and change nothing. One attempt more than interactive and room for a slow replica: four attempts of at most 3 s and all waits fit into 15 s.",
  payment:
    "Writes that must not happen twice: charges, orders, transfers. Refused without an idempotency key. Slow networks get 15 s an attempt; three attempts fit into 60 s. 409 is retried, because it is how a server says that the same key is still at work.",
  background:
    "Work nobody waits for: what the service uses when told nothing. Ceilings triple from 1 s and reach 1 h by the ninth wait; as no wait is below half its ceiling, 1 h 57 min pass at least before the twelfth attempt. 24 h leave room for holds and Retry-After.",
  webhook:
    "Notices to a receiver somebody else runs. The schedule of Standard Webhooks: ten attempts over three days, in which people can repair it. Jitter is 10 % either way: FULL would turn a wait of ten hours into one of minutes. All but 2xx and 410 (Gone) is retried.",
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
