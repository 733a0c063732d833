/**
 * Resolve policy: a document or the name of a preset, completed by core. Apart from `scenario.ts`, so
 * that a page which draws one curve does not load the worlds.
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
