/** Memory policies: the versions of policies of the memory store. */
import { INLINE_PREFIX, type PolicyRow, type Store } from "../../model/store.ts";
import { isEnded } from "../../model/task.ts";
import { keyOf, type Rows } from "./rows.ts";
import type { Tables } from "./tables.ts";

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

export function memoryPolicies({ rows, policies }: Tables): PolicyTable {
  const versionsOf = (tenantId: string, policyId: string) =>
    [...policies.values()]
      .filter((policy) => policy.tenantId === tenantId && policy.policyId === policyId)
      .sort((one, other) => other.version - one.version);
  const write = (policy: PolicyRow) => policies.set(positionOf(policy), policy);
  return {
    async addPolicy(policy) {
      const newest = versionsOf(policy.tenantId, policy.policyId)[0]?.version ?? 0;
      if (newest !== policy.version - 1) return false;
      write({ ...policy, removedAt: null });
      return true;
    },
    async getPolicy(tenantId, policyId, version) {
      if (version === undefined) return versionsOf(tenantId, policyId)[0] ?? null;
      return policies.get(keyOf(tenantId, policyId, String(version))) ?? null;
    },
    async listPolicies(tenantId) {
      const own = [...policies.values()].filter((policy) => policy.tenantId === tenantId);
      return own
        .filter(({ removedAt }) => removedAt === null)
        .filter(({ policyId, version }) => versionsOf(tenantId, policyId)[0]?.version === version)
        .sort((one, other) => (one.policyId < other.policyId ? -1 : 1));
    },
    async removePolicy(tenantId, policyId, now) {
      for (const { task, state } of rows.all()) {
        const isUser = task.tenantId === tenantId && task.policyId === policyId;
        if (isUser && !isEnded(state.status)) return false;
      }
      const live = versionsOf(tenantId, policyId).filter(({ removedAt }) => removedAt === null);
      for (const policy of live) write({ ...policy, removedAt: now });
      return live.length > 0;
    },
    async removeInline(unused) {
      const used = usedBy(rows);
      for (const { tenantId, policyId } of unused) {
        if (!policyId.startsWith(INLINE_PREFIX) || used.has(keyOf(tenantId, policyId))) continue;
        for (const policy of versionsOf(tenantId, policyId)) policies.delete(positionOf(policy));
      }
    },
    async unusedPolicies({ limit, cursor = "" }) {
      const used = usedBy(rows);
      const ids = new Map(
        [...policies.values()].map(({ tenantId, policyId }) => [
          keyOf(tenantId, policyId),
          { tenantId, policyId },
        ]),
      );
      const rest = [...ids].filter(([key]) => key > cursor).sort(([a], [b]) => (a < b ? -1 : 1));
      const page = rest.slice(0, limit);
      const unused = page.filter(
        ([key, { policyId }]) => !used.has(key) && policyId.startsWith(INLINE_PREFIX),
      );
      const last = rest.length > limit ? page.at(-1)?.[0] : undefined;
      return { policies: unused.map(([, policy]) => policy), cursor: last ?? null };
    },
  };
}

function positionOf({ tenantId, policyId, version }: PolicyRow): string {
  return keyOf(tenantId, policyId, String(version));
}

/** The policies of all stored tasks. */
function usedBy(rows: Rows): ReadonlySet<string> {
  return new Set([...rows.all()].map(({ task }) => keyOf(task.tenantId, task.policyId)));
}
