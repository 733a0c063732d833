/**
 * Document table: the documents of the SQLite store.
 */
import type {
  DocumentPage,
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../model/document-table.ts";
import { FEW_ROWS, type Sql } from "./file/sql.ts";
import type { Reader } from "./reader.ts";
import type { Cell } from "./rows.ts";

const COLUMNS = "kind, tenant_id, id, version, text";
const THIS_ONE = "kind = ? AND tenant_id = ? AND id = ?";

/** Returns a function that overwrites or removes a document. */
export function documentWriter(sql: Sql): (document: UnversionedDocument) => void {
  const upsert = sql.prepare(`INSERT INTO documents VALUES (?, ?, ?, 1, ?)
    ON CONFLICT DO UPDATE SET version = version + 1, text = excluded.text`);
  const remove = sql.prepare(`DELETE FROM documents WHERE ${THIS_ONE}`);
  return ({ kind, tenantId, id, text }) => {
    if (text === null) remove.run(kind, tenantId, id);
    else upsert.run(kind, tenantId, id, text);
  };
}

const SELECT_MANY = `SELECT documents.text FROM json_each(?2) AS keys
  LEFT JOIN documents ON kind = ?1 AND tenant_id = keys.value ->> 0
    AND documents.id = keys.value ->> 1
  ORDER BY keys.key`;

/** After a cursor: the tenant and the id of the last document, so that the index gives the page. */
const PAGE = `SELECT ${COLUMNS} FROM documents WHERE kind = ? AND (tenant_id, id) > (?, ?)
  ORDER BY tenant_id, id LIMIT ?`;
const PAGE_OF_TENANT = `SELECT ${COLUMNS} FROM documents WHERE kind = ? AND tenant_id = ? AND id > ?
  ORDER BY id LIMIT ?`;

/** A few documents are read on the writing connection, and more on a reader's thread. */
export function documentTable(sql: Sql, reader: Reader): DocumentTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?)");
  const update = sql.prepare(
    `UPDATE documents SET version = ?, text = ? WHERE ${THIS_ONE} AND version = ?`,
  );
  const select = sql.prepare(`SELECT ${COLUMNS} FROM documents WHERE ${THIS_ONE}`);
  const selectText = sql.prepare(`SELECT text FROM documents WHERE ${THIS_ONE}`);
  const remove = sql.prepare(`DELETE FROM documents WHERE ${THIS_ONE}`);

  function put({ kind, tenantId, id, version, text }: StoredDocument): boolean {
    const { changes } =
      version === 1
        ? insert.run(kind, tenantId, id, version, text)
        : update.run(version, text, kind, tenantId, id, version - 1);
    return Number(changes) > 0;
  }

  function textOf(kind: string, tenantId: string, id: string): string | null {
    const cells = sql.read(() => selectText.get(kind, tenantId, id));
    return cells === undefined ? null : ((cells as unknown as readonly string[])[0] ?? null);
  }

  function selectPage(kind: string, { tenantId, limit, cursor }: DocumentPage) {
    const [lastTenant, lastId] = JSON.parse(cursor ?? '["",""]') as [string, string];
    return tenantId === undefined
      ? reader.all(PAGE, [kind, lastTenant, lastId, limit])
      : reader.all(PAGE_OF_TENANT, [kind, tenantId, lastId, limit]);
  }

  return {
    put: async (document) => sql.transaction(() => put(document)),
    async get(kind, tenantId, id) {
      const cells = sql.read(() => select.get(kind, tenantId, id));
      return cells === undefined ? null : documentOf(cells as unknown as readonly Cell[]);
    },
    async getMany(kind, keys) {
      if (keys.length <= FEW_ROWS)
        return keys.map(({ tenantId, id }) => textOf(kind, tenantId, id));
      const pairs = JSON.stringify(keys.map(({ tenantId, id }) => [tenantId, id]));
      const rows = await reader.all(SELECT_MANY, [kind, pairs]);
      return rows.map(([text]) => text as string | null);
    },
    async list(kind, page) {
      const documents = (await selectPage(kind, page)).map(documentOf);
      const last = documents.length < page.limit ? undefined : documents.at(-1);
      return { documents, cursor: last ? JSON.stringify([last.tenantId, last.id]) : null };
    },
    remove: async (kind, tenantId, id) =>
      sql.transaction(() => Number(remove.run(kind, tenantId, id).changes) > 0),
  };
}

function documentOf([kind, tenantId, id, version, text]: readonly Cell[]): StoredDocument {
  return { kind, tenantId, id, version, text } as StoredDocument;
}
