/**
 * Policy cache: the policies that tasks refer to, read once and kept resolved. A version of a policy
 * never changes, so an entry stays valid.
 */
import { type Policy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";
import type { Store } from "./store.ts";

/** A full cache is cleared, and its policies are read again. */
const MAX_POLICIES = 10_000;

/** Internal tasks use a preset unchanged, which needs no row. */
export const PRESET_VERSION = 0;

export interface PolicyRef {
  readonly tenantId: string;
  readonly policyId: string;
  readonly policyVersion: number;
}

export class PolicyCache {
  readonly #store: Store;
  readonly #policies = new Map<string, Policy>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The policy, if it is in the cache. */
  get(ref: PolicyRef): Policy | undefined {
    return this.#policies.get(keyOf(ref));
  }

  /** The policy, from the cache or the store; null if that version does not exist. */
  async load(ref: PolicyRef): Promise<Policy | null> {
    const cached = this.get(ref);
    if (cached !== undefined) return cached;
    if (ref.policyVersion === PRESET_VERSION) return this.#addPreset(ref);
    const row = await this.#store.getPolicy(ref.tenantId, ref.policyId, ref.policyVersion);
    return row === null ? null : this.add(ref, JSON.parse(row.document) as PolicyDocument);
  }

  #addPreset(ref: PolicyRef): Policy | null {
    const { policyId } = ref;
    if (!Object.hasOwn(presets, policyId)) return null;
    return this.add(ref, presets[policyId as keyof typeof presets]);
  }

  add(ref: PolicyRef, document: PolicyDocument): Policy {
    if (this.#policies.size >= MAX_POLICIES) this.#policies.clear();
    const policy = resolvePolicy(document);
    this.#policies.set(keyOf(ref), policy);
    return policy;
  }
}

function keyOf({ tenantId, policyId, policyVersion }: PolicyRef): string {
  return `${tenantId}\n${policyId}\n${policyVersion}`;
}
