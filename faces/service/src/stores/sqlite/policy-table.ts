/**
 * Policy table: the versions of registered policies. A removed policy keeps its rows, so that no
 * version is used for two documents. This process is the only writer, so the versions that new tasks
 * use are kept in memory: a create checks its policy without reading the disk.
 */

import { type PolicyRow, PRESET_VERSION, type Store } from "../../model/store.ts";
import type { NewTask } from "../../model/task.ts";
import type { Sql } from "./file/sql.ts";
import type { Reader } from "./reader.ts";
import { type Cell, IN_FLIGHT, PENDING } from "./rows.ts";

type PolicyMethods = Pick<
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

const COLUMNS = "tenant_id, policy_id, version, document, created_at, removed_at";

/** Beyond this number, the known versions are read again. */
const MAX_KNOWN = 10_000;

export class PolicyTable {
  readonly #sql: Sql;
  readonly #statements: ReturnType<typeof statementsOf>;
  /** Versions that exist and were not removed. */
  readonly #known = new Set<string>();

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#statements = statementsOf(sql);
  }

  /** Does the policy version of the task exist? */
  has({ tenantId, policyId, policyVersion }: NewTask): boolean {
    if (policyVersion === PRESET_VERSION) return true;
    const key = `${tenantId}\n${policyId}\n${policyVersion}`;
    if (this.#known.has(key)) return true;
    const row = this.#read(tenantId, policyId, policyVersion);
    if (row === null || row.removedAt !== null) return false;
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.add(key);
    return true;
  }

  #read(tenantId: string, policyId: string, version: number | undefined): PolicyRow | null {
    const cells = this.#statements.select.get(tenantId, policyId, version ?? null);
    return cells === undefined ? null : policyOf(cells as unknown as readonly Cell[]);
  }

  /** The methods of the store. `reader` reads pages. */
  methods(reader: Reader): PolicyMethods {
    const { insert, selectAll, remove, removeInline } = this.#statements;
    const sql = this.#sql;
    return {
      addPolicy: async (policy) =>
        sql.transaction(() => {
          const { tenantId, policyId, version, document, createdAt } = policy;
          return insert.run(tenantId, policyId, version, document, createdAt).changes > 0;
        }),
      getPolicy: async (tenantId, policyId, version) =>
        sql.read(() => this.#read(tenantId, policyId, version)),
      async listPolicies(tenantId) {
        return (sql.read(() => selectAll.all(tenantId)) as unknown as Cell[][]).map(policyOf);
      },
      removePolicy: async (tenantId, policyId, now) => {
        this.#known.clear();
        return sql.transaction(() => remove.run(tenantId, policyId, now).changes > 0);
      },
      removeInline: async (policies) => {
        this.#known.clear();
        sql.transaction(() => {
          for (const { tenantId, policyId } of policies) removeInline.run(tenantId, policyId);
        });
      },
      unusedPolicies: ({ limit, cursor }) => unusedPage(reader, limit, cursor),
    };
  }
}

async function unusedPage(
  reader: Reader,
  limit: number,
  cursor: string | undefined,
): ReturnType<PolicyMethods["unusedPolicies"]> {
  const after = JSON.parse(cursor ?? '["",""]') as [string, string];
  const rows = await reader.all(SELECT_UNUSED, [...after, limit]);
  const policies = rows.flatMap(([tenantId, policyId, unused]) =>
    unused === 1 ? [{ tenantId: tenantId as string, policyId: policyId as string }] : [],
  );
  const last = rows.length < limit ? undefined : rows.at(-1);
  return { policies, cursor: last ? JSON.stringify(last.slice(0, 2)) : null };
}

function statementsOf(sql: Sql) {
  return {
    insert: sql.prepare(`INSERT INTO policies (tenant_id, policy_id, version, document, created_at)
      SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?3 - 1 =
        (SELECT ifnull(max(version), 0) FROM policies WHERE tenant_id = ?1 AND policy_id = ?2)`),
    select: sql.prepare(`SELECT ${COLUMNS} FROM policies
      WHERE tenant_id = ? AND policy_id = ? AND version = ifnull(?, version)
      ORDER BY version DESC LIMIT 1`),
    selectAll: sql.prepare(`SELECT tenant_id, policy_id, max(version), document, created_at,
      removed_at FROM policies WHERE tenant_id = ? AND removed_at IS NULL
      GROUP BY policy_id ORDER BY policy_id`),
    remove: sql.prepare(`UPDATE policies SET removed_at = ?3
      WHERE tenant_id = ?1 AND policy_id = ?2 AND removed_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM tasks t JOIN payloads p ON p.ref = t.ref
        WHERE t.status IN (${PENDING}, ${IN_FLIGHT}) AND t.tenant_id = ?1 AND p.policy_id = ?2)`),
    removeInline: sql.prepare(`DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2
      AND ?2 >= 'inline.' AND ?2 < 'inline/' AND NOT ${isUsed("?2")}`),
  };
}

function policyOf(cells: readonly Cell[]): PolicyRow {
  const [tenantId, policyId, version, document, createdAt, removedAt] = cells;
  return { tenantId, policyId, version, document, createdAt, removedAt } as PolicyRow;
}
