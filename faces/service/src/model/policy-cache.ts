/**
 * Policy cache: the policies that tasks refer to, read once and kept resolved. A version of a policy
 * never changes, so an entry stays valid. A version that cannot be read is not kept: the newest
 * version replaces it as soon as that one can be read.
 */
import { type Policy, type PolicyDocument, presets, resolvePolicy } from "@redrive/core";
import { PRESET_VERSION, type Store } from "./store.ts";
import { type Reading, readPolicy } from "./stored-documents.ts";

/** A full cache is cleared, and its policies are read again. */
const MAX_POLICIES = 10_000;

export interface PolicyRef {
  readonly tenantId: string;
  readonly policyId: string;
  readonly policyVersion: number;
}

/** This version of Redrive cannot read the policy. Its tasks are held. */
export interface UnreadablePolicy {
  readonly unreadable: string;
}

export function isUnreadable(policy: Policy | UnreadablePolicy): policy is UnreadablePolicy {
  return "unreadable" in policy;
}

/** Called for every policy that is read from the store. */
export type ReportPolicy = (ref: PolicyRef, reading: Reading<Policy>) => void;

export class PolicyCache {
  readonly #store: Store;
  readonly #report: ReportPolicy;
  readonly #policies = new Map<string, Policy>();

  constructor(store: Store, report: ReportPolicy = () => {}) {
    this.#store = store;
    this.#report = report;
  }

  /** The policy, if it is in the cache. */
  get(ref: PolicyRef): Policy | undefined {
    return this.#policies.get(keyOf(ref));
  }

  /** The policy, from the cache or the store; null if that version does not exist. */
  async load(ref: PolicyRef): Promise<Policy | UnreadablePolicy | null> {
    const cached = this.get(ref);
    if (cached !== undefined) return cached;
    if (ref.policyVersion === PRESET_VERSION) return this.#addPreset(ref);
    const { tenantId, policyId, policyVersion } = ref;
    const row = await this.#store.getPolicy(tenantId, policyId, policyVersion);
    if (row === null) return null;
    const policy = this.addText(ref, row.document);
    if (!isUnreadable(policy)) return policy;
    const newest = await this.#store.getPolicy(tenantId, policyId);
    if (newest === null || newest.version === policyVersion) return policy;
    const replacement = readPolicy(newest.document);
    return replacement.kind === "read" ? this.#set(ref, replacement.value) : policy;
  }

  #addPreset(ref: PolicyRef): Policy | null {
    const { policyId } = ref;
    if (!Object.hasOwn(presets, policyId)) return null;
    return this.add(ref, presets[policyId as keyof typeof presets]);
  }

  /** Adds a document that was checked. */
  add(ref: PolicyRef, document: PolicyDocument): Policy {
    return this.#set(ref, resolvePolicy(document));
  }

  /** Adds a stored document, unless it cannot be read. */
  addText(ref: PolicyRef, text: string): Policy | UnreadablePolicy {
    const reading = readPolicy(text);
    this.#report(ref, reading);
    if (reading.kind === "read") return this.#set(ref, reading.value);
    return { unreadable: reading.reason };
  }

  #set(ref: PolicyRef, policy: Policy): Policy {
    if (this.#policies.size >= MAX_POLICIES) this.#policies.clear();
    this.#policies.set(keyOf(ref), policy);
    return policy;
  }
}

function keyOf({ tenantId, policyId, policyVersion }: PolicyRef): string {
  return `${tenantId}\n${policyId}\n${policyVersion}`;
}
