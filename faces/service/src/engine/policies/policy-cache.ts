/**
 * Policy book: the policies that tasks are pinned to, read once and kept resolved. A version never
 * changes, so what is in the book stays true.
 */
import { type Policy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";
import type { Store } from "../../model/store.ts";

/** More are dropped and read again. */
const MAX_POLICIES = 10_000;

/** Internal tasks are pinned to a preset as it is, which needs no row. */
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

  /** The policy, if it is in the book. */
  get(ref: PolicyRef): Policy | undefined {
    return this.#policies.get(keyOf(ref));
  }

  /** The policy, from the store if need be; null if there is no such version. */
  async load(ref: PolicyRef): Promise<Policy | null> {
    const known = this.get(ref);
    if (known !== undefined) return known;
    if (ref.policyVersion === PRESET_VERSION) return this.#preset(ref);
    const row = await this.#store.getPolicy(ref.tenantId, ref.policyId, ref.policyVersion);
    return row === null ? null : this.add(ref, JSON.parse(row.document) as PolicyDocument);
  }

  #preset(ref: PolicyRef): Policy | null {
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
