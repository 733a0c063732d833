/** Policy table: the versions of policies. */
import {
  INLINE_PREFIX,
  type PolicyRow,
  type Store,
  type UnusedPolicyPage,
} from "../../model/store.ts";
import type { Sql } from "./connection/sql.ts";
import { type Cell, cursorText, cursorTexts } from "./connection/sql.ts";

type PolicyTable = Pick<
  Store,
  "addPolicy" | "getPolicy" | "listPolicies" | "removePolicy" | "unusedPolicies" | "removeInline"
>;

const ADD = `INSERT INTO redrive.policies
  SELECT $1, $2, $3::int, $4, $5::bigint WHERE $3::int - 1 = (SELECT coalesce(max(version), 0)
    FROM redrive.policies WHERE tenant_id = $1 AND policy_id = $2)
  ON CONFLICT DO NOTHING RETURNING version`;

const COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";

const GET = `SELECT ${COLUMNS} FROM redrive.policies
  WHERE tenant_id = $1 AND policy_id = $2 AND version = coalesce($3::int, version)
  ORDER BY version DESC LIMIT 1`;

const LIST = `SELECT ${COLUMNS} FROM (
    SELECT DISTINCT ON (policy_id) * FROM redrive.policies WHERE tenant_id = $1
    ORDER BY policy_id, version DESC) newest
  WHERE removed_at IS NULL ORDER BY policy_id`;

/** Policies after a position, and whether each one is an inline policy that no task uses. */
const UNUSED = `SELECT p.tenant_id, p.policy_id, starts_with(p.policy_id, $4) AND NOT EXISTS (
    SELECT FROM redrive.tasks t WHERE t.tenant_id = p.tenant_id AND t.policy_id = p.policy_id
      AND t.policy_version > 0)
  FROM (SELECT DISTINCT tenant_id, policy_id FROM redrive.policies
    WHERE (tenant_id, policy_id) > ($1, $2) ORDER BY tenant_id, policy_id LIMIT $3) p
  ORDER BY p.tenant_id, p.policy_id`;

export function policyTable({ run }: Sql): PolicyTable {
  return {
    async addPolicy({ tenantId, policyId, version, document, createdAt }) {
      const rows = await run(ADD, [tenantId, policyId, version, document, createdAt]);
      return rows.length > 0;
    },
    async getPolicy(tenantId, policyId, version) {
      const [row] = await run(GET, [tenantId, policyId, version ?? null]);
      return row === undefined ? null : policyOf(row);
    },
    async listPolicies(tenantId) {
      return (await run(LIST, [tenantId])).map(policyOf);
    },
    async removePolicy(tenantId, policyId, now) {
      const params = [tenantId, policyId, now];
      const [marked] = await run("SELECT redrive_functions.mark_policy($1, $2, $3)", params);
      if (marked?.[0] !== true) return false;
      const [row] = await run("SELECT redrive_functions.confirm_removal($1, $2, $3)", params);
      return row?.[0] === true;
    },
    async unusedPolicies({ limit, cursor }): Promise<UnusedPolicyPage> {
      const [tenantId = "", policyId = ""] = cursorTexts(cursor);
      const rows = await run(UNUSED, [tenantId, policyId, limit, INLINE_PREFIX]);
      const unused = rows.filter(([, , isUnused]) => isUnused === true);
      const last = rows.length < limit ? undefined : rows.at(-1);
      return {
        policies: unused.map(([tenant, policy]) => ({
          tenantId: tenant as string,
          policyId: policy as string,
        })),
        cursor: last === undefined ? null : cursorText(last.slice(0, 2)),
      };
    },
    async removeInline(policies) {
      const inline = policies.filter(({ policyId }) => policyId.startsWith(INLINE_PREFIX));
      await run("SELECT redrive_functions.remove_inline($1, $2)", [
        inline.map(({ tenantId }) => tenantId),
        inline.map(({ policyId }) => policyId),
      ]);
    },
  };
}

function policyOf(cells: readonly Cell[]): PolicyRow {
  return {
    tenantId: cells[0] as string,
    policyId: cells[1] as string,
    version: cells[2] as number,
    document: cells[3] as string,
    createdAt: cells[4] as number,
    removedAt: cells[5] as number | null,
  };
}
