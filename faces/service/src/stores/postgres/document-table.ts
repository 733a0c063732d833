/** Document table: small versioned documents that belong to no task. */
import type { DocumentTable, StoredDocument } from "../../model/document-table.ts";
import type { Sql } from "./connection/sql.ts";
import { type Cell, cursorText, cursorTexts } from "./connection/sql.ts";

const INSERT = `INSERT INTO redrive.documents VALUES ($1, $2, $3, 1, $4)
  ON CONFLICT DO NOTHING RETURNING version`;

const UPDATE = `UPDATE redrive.documents SET version = $4, text = $5
  WHERE kind = $1 AND tenant_id = $2 AND id = $3 AND version = $4 - 1 RETURNING version`;

const COLUMNS = "kind, tenant_id, id, version, text";

const GET = `SELECT ${COLUMNS} FROM redrive.documents
  WHERE kind = $1 AND tenant_id = $2 AND id = $3`;

const GET_MANY = `SELECT d.text FROM unnest($2::text[], $3::text[])
    WITH ORDINALITY k (tenant_id, id, position)
  LEFT JOIN redrive.documents d ON d.kind = $1 AND d.tenant_id = k.tenant_id AND d.id = k.id
  ORDER BY k.position`;

const LIST = `SELECT ${COLUMNS} FROM redrive.documents
  WHERE kind = $1 AND (tenant_id, id) > ($2, $3) AND ($5::text IS NULL OR tenant_id = $5)
  ORDER BY tenant_id, id LIMIT $4`;

const REMOVE = `DELETE FROM redrive.documents
  WHERE kind = $1 AND tenant_id = $2 AND id = $3 RETURNING version`;

export function documentTable({ run }: Sql): DocumentTable {
  return {
    async put({ kind, tenantId, id, version, text }) {
      const rows =
        version === 1
          ? await run(INSERT, [kind, tenantId, id, text])
          : await run(UPDATE, [kind, tenantId, id, version, text]);
      return rows.length > 0;
    },
    async get(kind, tenantId, id) {
      const [row] = await run(GET, [kind, tenantId, id]);
      return row === undefined ? null : documentOf(row);
    },
    async getMany(kind, keys) {
      const tenantIds = keys.map(({ tenantId }) => tenantId);
      const ids = keys.map(({ id }) => id);
      const rows = await run(GET_MANY, [kind, tenantIds, ids]);
      return rows.map(([text]) => text as string | null);
    },
    async list(kind, { limit, tenantId, cursor }) {
      const [tenant = tenantId ?? "", id = ""] = cursorTexts(cursor);
      const rows = await run(LIST, [kind, tenant, id, limit + 1, tenantId ?? null]);
      const page = rows.slice(0, limit);
      const last = rows.length > limit ? page.at(-1) : undefined;
      return {
        documents: page.map(documentOf),
        cursor: last === undefined ? null : cursorText(last.slice(1, 3)),
      };
    },
    async remove(kind, tenantId, id) {
      return (await run(REMOVE, [kind, tenantId, id])).length > 0;
    },
  };
}

function documentOf(cells: readonly Cell[]): StoredDocument {
  return {
    kind: cells[0] as string,
    tenantId: cells[1] as string,
    id: cells[2] as string,
    version: cells[3] as number,
    text: cells[4] as string,
  };
}
