/**
 * Document table: the documents of the SQLite store.
 */
import type {
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../../model/document-table.ts";
import type { Sql } from "../file/sql.ts";
import type { Cell } from "../rows/codec.ts";

const COLUMNS = "kind, tenant_id, id, version, text";
const THIS_ONE = "kind = ? AND tenant_id = ? AND id = ?";

/** Returns a function that overwrites a document. */
export function documentWriter(sql: Sql): (document: UnversionedDocument) => void {
  const upsert = sql.prepare(`INSERT INTO documents VALUES (?, ?, ?, 1, ?)
    ON CONFLICT DO UPDATE SET version = version + 1, text = excluded.text`);
  return ({ kind, tenantId, id, text }) => void upsert.run(kind, tenantId, id, text);
}

export function documentTable(sql: Sql): DocumentTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO documents VALUES (?, ?, ?, ?, ?)");
  const update = sql.prepare(
    `UPDATE documents SET version = ?, text = ? WHERE ${THIS_ONE} AND version = ?`,
  );
  const select = sql.prepare(`SELECT ${COLUMNS} FROM documents WHERE ${THIS_ONE}`);
  const selectKind = sql.prepare(`SELECT ${COLUMNS} FROM documents WHERE kind = ? ORDER BY id`);
  const remove = sql.prepare(`DELETE FROM documents WHERE ${THIS_ONE}`);

  function put({ kind, tenantId, id, version, text }: StoredDocument): boolean {
    const { changes } =
      version === 1
        ? insert.run(kind, tenantId, id, version, text)
        : update.run(version, text, kind, tenantId, id, version - 1);
    return Number(changes) > 0;
  }

  return {
    put: async (document) => sql.transaction(() => put(document)),
    async get(kind, tenantId, id) {
      const cells = sql.read(() => select.get(kind, tenantId, id));
      return cells === undefined ? null : documentOf(cells as unknown as readonly Cell[]);
    },
    async list(kind) {
      return (sql.read(() => selectKind.all(kind)) as unknown as Cell[][]).map(documentOf);
    },
    remove: async (kind, tenantId, id) =>
      sql.transaction(() => Number(remove.run(kind, tenantId, id).changes) > 0),
  };
}

function documentOf([kind, tenantId, id, version, text]: readonly Cell[]): StoredDocument {
  return { kind, tenantId, id, version, text } as StoredDocument;
}
