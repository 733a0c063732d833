/**
 * Document table: the documents of the SQLite store, in the table `notes`. Files of earlier
 * versions lack the table, so it is created at the next open.
 */
import type {
  DocumentTable,
  StoredDocument,
  UnversionedDocument,
} from "../../model/document-table.ts";
import type { Cell } from "./codec.ts";
import type { Sql } from "./sql.ts";

const CREATE_TABLE = `CREATE TABLE IF NOT EXISTS notes (
  kind TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (kind, tenant_id, id)
) STRICT, WITHOUT ROWID`;

const COLUMNS = "kind, tenant_id, id, version, text";
const THIS_ONE = "kind = ? AND tenant_id = ? AND id = ?";

/** Creates the table if it is missing, and returns a function that overwrites a document. */
export function documentWriter(sql: Sql): (document: UnversionedDocument) => void {
  sql.transaction(() => sql.prepare(CREATE_TABLE).run());
  const upsert = sql.prepare(`INSERT INTO notes VALUES (?, ?, ?, 1, ?)
    ON CONFLICT DO UPDATE SET version = version + 1, text = excluded.text`);
  return ({ kind, tenantId, id, text }) => void upsert.run(kind, tenantId, id, text);
}

/** Requires the table, which `documentWriter` creates. */
export function documentTable(sql: Sql): DocumentTable {
  const insert = sql.prepare("INSERT OR IGNORE INTO notes VALUES (?, ?, ?, ?, ?)");
  const update = sql.prepare(
    `UPDATE notes SET version = ?, text = ? WHERE ${THIS_ONE} AND version = ?`,
  );
  const select = sql.prepare(`SELECT ${COLUMNS} FROM notes WHERE ${THIS_ONE}`);
  const selectKind = sql.prepare(`SELECT ${COLUMNS} FROM notes WHERE kind = ? ORDER BY id`);
  const remove = sql.prepare(`DELETE FROM notes WHERE ${THIS_ONE}`);

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
