/**
 * Policy ids: the ids that presets and inline policies have, which nobody can register for another
 * document.
 */
import {
  DocumentError,
  fieldProblem,
  nearestName,
  type PolicyDocument,
  presets,
  quote,
  resolvePolicy,
} from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import { INLINE_PREFIX } from "../model/store.ts";

export function presetOf(policyId: string): PolicyDocument | undefined {
  return Object.hasOwn(presets, policyId) ? presets[policyId as keyof typeof presets] : undefined;
}

export function conflict(policyId: string, what: string): Error {
  return serviceError("POLICY_CONFLICT", `policy ${JSON.stringify(policyId)} ${what}`);
}

/**
 * There is no such policy. `ids`: registered ones; the nearest of them and of the presets is suggested.
 * The id itself may be among them, if another node has removed it a moment ago.
 */
export function unknownPolicy(
  code: "NOT_FOUND" | "UNKNOWN_POLICY",
  policyId: string,
  ids: readonly string[],
): Error {
  const others = [...ids, ...Object.keys(presets)].filter((id) => id !== policyId);
  const near = nearestName(policyId, others);
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  return serviceError(code, `there is no policy ${JSON.stringify(policyId)}${hint}`);
}

/** The id under which a document is registered; throws if it has none, or a reserved one. */
export function idOf(document: PolicyDocument): string {
  resolvePolicy(document);
  const { policyId } = document;
  if (policyId?.startsWith(INLINE_PREFIX)) {
    const text = `policyId must not begin with "${INLINE_PREFIX}", as the ids of inline policies do`;
    throw new DocumentError("INVALID_POLICY", [fieldProblem("policyId", policyId, text)]);
  }
  if (policyId !== undefined) return policyId;
  throw serviceError("UNKNOWN_POLICY", "a registered policy must have a policyId, got none");
}

/** When several callers change one policy at the same time, each may need one try per other caller. */
const MAX_TRIES = 100;

/** Repeats `change` until it is not overtaken by another caller, which it reports by null. */
export async function retryConflicts<T>(
  policyId: string,
  change: () => Promise<T | null>,
): Promise<T> {
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const result = await change();
    if (result !== null) return result;
  }
  throw conflict(policyId, `was changed by other callers ${MAX_TRIES} times in a row; try again`);
}
