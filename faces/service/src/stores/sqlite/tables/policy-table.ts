/**
 * Policy table: the versions of registered policies.
 */
import type { PolicyRow, Store } from "../../../model/store.ts";
import type { Sql } from "../file/sql.ts";
import { type Cell, IN_FLIGHT, PENDING } from "../rows/codec.ts";

type PolicyTable = Pick<Store, "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy">;

export function policyTable(sql: Sql): PolicyTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO policies VALUES (?, ?, ?, ?, ?)");
  const select = sql.prepare(`SELECT tenant_id, policy_id, version, document, created_at
    FROM policies WHERE tenant_id = ? AND policy_id = ? AND version = ifnull(?, version)
    ORDER BY version DESC LIMIT 1`);
  const selectAll = sql.prepare(`SELECT tenant_id, policy_id, max(version), document, created_at
    FROM policies WHERE tenant_id = ? GROUP BY policy_id ORDER BY policy_id`);
  const remove = sql.prepare(`DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2
    AND NOT EXISTS (SELECT 1 FROM tasks t JOIN payloads p ON p.ref = t.ref
      WHERE t.status IN (${PENDING}, ${IN_FLIGHT}) AND t.tenant_id = ?1 AND p.policy_id = ?2)`);
  return {
    addPolicy: async (policy) =>
      sql.transaction(() => {
        const { tenantId, policyId, version, document, createdAt } = policy;
        return insert.run(tenantId, policyId, version, document, createdAt).changes > 0;
      }),
    async getPolicy(tenantId, policyId, version) {
      const cells = sql.read(() => select.get(tenantId, policyId, version ?? null));
      return cells === undefined ? null : policyOf(cells as unknown as readonly Cell[]);
    },
    async listPolicies(tenantId) {
      return (sql.read(() => selectAll.all(tenantId)) as unknown as Cell[][]).map(policyOf);
    },
    removePolicy: async (tenantId, policyId) =>
      sql.transaction(() => remove.run(tenantId, policyId).changes > 0),
  };
}

function policyOf(cells: readonly Cell[]): PolicyRow {
  const [tenantId, policyId, version, document, createdAt] = cells;
  return { tenantId, policyId, version, document, createdAt } as PolicyRow;
}
