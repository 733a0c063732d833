/**
 * Policy of: resolves a policy document or the name of a preset. Separate from `scenario.ts`, so a
 * page that draws one curve does not load the worlds.
 */
import {
  type Policy,
  type PolicyDocument,
  type PresetName,
  preset,
  resolvePolicy,
} from "@redrive/core";

export function policyOf(policy: PolicyDocument | PresetName = {}): Policy {
  return resolvePolicy(typeof policy === "string" ? preset(policy) : policy);
}
