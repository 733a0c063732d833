/**
 * Policy table: the versions of registered policies.
 */
import type { PolicyRow, Store } from "../../../model/store.ts";
import type { Sql } from "../file/sql.ts";
import type { Reader } from "../read/reader.ts";
import { type Cell, IN_FLIGHT, PENDING } from "../rows/codec.ts";

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

/** True of a stored task that uses the inline policy. The index holds only tasks with inline ones. */
const isUsed = (policyId: string) => `EXISTS (SELECT 1 FROM payloads
  WHERE policy_id = ${policyId} AND policy_id >= 'inline.' AND policy_id < 'inline/')`;

const SELECT_UNUSED = `
  WITH page AS MATERIALIZED (
    SELECT tenant_id, policy_id FROM policies
    WHERE (tenant_id, policy_id) > (?, ?) ORDER BY tenant_id, policy_id LIMIT ?)
  SELECT tenant_id, policy_id,
    policy_id >= 'inline.' AND policy_id < 'inline/' AND NOT ${isUsed("page.policy_id")}
  FROM page`;

export function policyTable(sql: Sql, reader: Reader): PolicyTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO policies VALUES (?, ?, ?, ?, ?)");
  const select = sql.prepare(`SELECT tenant_id, policy_id, version, document, created_at
    FROM policies WHERE tenant_id = ? AND policy_id = ? AND version = ifnull(?, version)
    ORDER BY version DESC LIMIT 1`);
  const selectAll = sql.prepare(`SELECT tenant_id, policy_id, max(version), document, created_at
    FROM policies WHERE tenant_id = ? GROUP BY policy_id ORDER BY policy_id`);
  const remove = sql.prepare(`DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2
    AND NOT EXISTS (SELECT 1 FROM tasks t JOIN payloads p ON p.ref = t.ref
      WHERE t.status IN (${PENDING}, ${IN_FLIGHT}) AND t.tenant_id = ?1 AND p.policy_id = ?2)`);
  const removeInline = sql.prepare(`DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2
    AND ?2 >= 'inline.' AND ?2 < 'inline/' AND NOT ${isUsed("?2")}`);
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
    removeInline: async (policies) =>
      sql.transaction(() => {
        for (const { tenantId, policyId } of policies) removeInline.run(tenantId, policyId);
      }),
    async unusedPolicies({ limit, cursor }) {
      const after = JSON.parse(cursor ?? '["",""]') as [string, string];
      const rows = await reader.all(SELECT_UNUSED, [...after, limit]);
      const policies = rows.flatMap(([tenantId, policyId, unused]) =>
        unused === 1 ? [{ tenantId: tenantId as string, policyId: policyId as string }] : [],
      );
      const last = rows.length < limit ? undefined : rows.at(-1);
      return { policies, cursor: last ? JSON.stringify(last.slice(0, 2)) : null };
    },
  };
}

function policyOf(cells: readonly Cell[]): PolicyRow {
  const [tenantId, policyId, version, document, createdAt] = cells;
  return { tenantId, policyId, version, document, createdAt } as PolicyRow;
}
