/**
 * Migrations: the numbered changes of the SQLite schema. They go forward only, each in one
 * transaction. A released migration never changes: a new file and an old one run the same steps.
 */
import { APPLICATION_ID, FIRST_SCHEMA } from "./first-schema.ts";
import { LIST_INDEXES } from "./list-indexes.ts";
import type { Database } from "./sql.ts";

/** Each is SQL text. The number of a migration is its position, counted from 1. */
const MIGRATIONS: readonly string[] = [
  `${FIRST_SCHEMA}; PRAGMA application_id = ${APPLICATION_ID};`,
  // 2: documents have their own name. Some files of version 1 have the table, others do not.
  `CREATE TABLE IF NOT EXISTS notes (
    kind TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (kind, tenant_id, id)
  ) STRICT, WITHOUT ROWID;
  ALTER TABLE notes RENAME TO documents;`,
  // 3: where the sweep of idempotency keys stopped, by state of the ended tasks. Keys of tasks that
  // ended earlier have an `expires_at`; from now on only keys whose task was removed have one.
  `CREATE TABLE key_sweeps (
    status INTEGER PRIMARY KEY,
    finished_at INTEGER NOT NULL,
    ref INTEGER NOT NULL
  ) STRICT;
  INSERT INTO key_sweeps SELECT column1,
    ifnull((SELECT max(finished_at) FROM tasks WHERE status = column1
      AND finished_at IS NOT NULL), 0), 0
    FROM (VALUES (2), (3), (4));`,
  // 4: indexes for lists.
  LIST_INDEXES,
  // 5: unused rows are found without reading every task, and running redrives without reading
  // every redrive.
  `CREATE INDEX payloads_inline ON payloads (policy_id)
    WHERE policy_id >= 'inline.' AND policy_id < 'inline/';
  CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';
  INSERT INTO documents SELECT 'redrive-running', tenant_id, id, 1, '' FROM documents
    WHERE kind = 'redrive' AND iif(json_valid(text), text ->> '$.job.status', '') = 'RUNNING';`,
  // 6: a removed policy keeps its versions, so that no version is used twice.
  "ALTER TABLE policies ADD COLUMN removed_at INTEGER;",
  // 7: how long each attempt waited after it was due, and why. Null: it started on time.
  "ALTER TABLE attempts ADD COLUMN waits TEXT;",
];

/** The schema that this version writes. A file with a higher number is rejected. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Runs the migrations that the file lacks. A crash at any statement leaves the file at the number
 * before; the next open continues there.
 */
export function migrate(database: Database, from: number, to: number = SCHEMA_VERSION): void {
  for (let number = from + 1; number <= to; number++) {
    try {
      database.exec(`
        BEGIN IMMEDIATE;
        ${MIGRATIONS[number - 1]}
        PRAGMA user_version = ${number};
        COMMIT`);
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
}
