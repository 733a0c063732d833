/** Memory policies: the versions of policies of the memory store. */
import { INLINE_PREFIX, type PolicyRow, type Store } from "../../model/store.ts";
import { isEnded } from "../../model/task.ts";
import type { Tables } from "./apply.ts";
import { keyOf, type Rows } from "./rows.ts";

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

export function memoryPolicies({ rows }: Tables): PolicyTable {
  const policies = new Map<string, PolicyRow[]>();
  const versionsOf = (tenantId: string, policyId: string) =>
    policies.get(keyOf(tenantId, policyId)) ?? [];
  return {
    async addPolicy(policy) {
      const versions = versionsOf(policy.tenantId, policy.policyId);
      if (versions.some(({ version }) => version === policy.version)) return false;
      policies.set(keyOf(policy.tenantId, policy.policyId), [...versions, policy]);
      return true;
    },
    async getPolicy(tenantId, policyId, version) {
      const versions = versionsOf(tenantId, policyId);
      if (version !== undefined) return versions.find((one) => one.version === version) ?? null;
      return versions.toSorted((a, b) => b.version - a.version)[0] ?? null;
    },
    async listPolicies(tenantId) {
      return [...policies.values()]
        .flatMap((versions) => versions.toSorted((a, b) => b.version - a.version).slice(0, 1))
        .filter((policy) => policy.tenantId === tenantId)
        .sort((a, b) => (a.policyId < b.policyId ? -1 : 1));
    },
    async removePolicy(tenantId, policyId) {
      for (const { task, state } of rows.all()) {
        const isUser = task.tenantId === tenantId && task.policyId === policyId;
        if (isUser && !isEnded(state.status)) return false;
      }
      return policies.delete(keyOf(tenantId, policyId));
    },
    async removeInline(unused) {
      const used = usedBy(rows);
      for (const { tenantId, policyId } of unused) {
        const key = keyOf(tenantId, policyId);
        if (policyId.startsWith(INLINE_PREFIX) && !used.has(key)) policies.delete(key);
      }
    },
    async unusedPolicies({ limit, cursor = "" }) {
      const used = usedBy(rows);
      const rest = [...policies.keys()].filter((key) => key > cursor).sort();
      const page = rest.slice(0, limit);
      const unused = page
        .filter((key) => !used.has(key))
        .flatMap((key) => policies.get(key)?.[0] ?? [])
        .filter(({ policyId }) => policyId.startsWith(INLINE_PREFIX))
        .map(({ tenantId, policyId }) => ({ tenantId, policyId }));
      return { policies: unused, cursor: rest.length > limit ? (page.at(-1) ?? null) : null };
    },
  };
}

/** The policies of all stored tasks. */
function usedBy(rows: Rows): ReadonlySet<string> {
  return new Set([...rows.all()].map(({ task }) => keyOf(task.tenantId, task.policyId)));
}
