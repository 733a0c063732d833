/**
 * Schema: the tables and indexes of the SQLite store, and the migrations that later versions add. The
 * tables are STRICT, so that a column holds its declared type. Bytes are BLOBs, because text is cut at
 * NUL. `tasks` holds what every attempt changes, `payloads` what never changes, so a claim rewrites two
 * hundred bytes and not a body.
 *
 * Migrations go forward only, each in one transaction. A released one never changes: a new file and an
 * old one run the same steps.
 */
import type { Database } from "./sql.ts";

/** "RDRV": marks a file as ours. */
export const APPLICATION_ID = 0x52445256;

const TABLES = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE destinations (
  destination_id INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  document TEXT,
  paused_at INTEGER,
  gate_until INTEGER NOT NULL,
  breaker_state TEXT NOT NULL,
  open_until INTEGER NOT NULL,
  open_count INTEGER NOT NULL,
  UNIQUE (tenant_id, name)
) STRICT;
CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';

CREATE TABLE nodes (
  node_number INTEGER PRIMARY KEY,
  node_id TEXT NOT NULL UNIQUE,
  lease_until INTEGER NOT NULL
) STRICT;

CREATE TABLE policies (
  tenant_id TEXT NOT NULL,
  policy_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  document TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- A removed policy keeps its versions, so that no version is used twice.
  removed_at INTEGER,
  PRIMARY KEY (tenant_id, policy_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  ref INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  destination_id INTEGER NOT NULL,
  status INTEGER NOT NULL,
  lane INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  attempt_number INTEGER NOT NULL,
  claim_epoch INTEGER NOT NULL,
  claimed_by INTEGER,
  claimed_at INTEGER,
  last_delay_ms INTEGER NOT NULL,
  abandoned_count INTEGER NOT NULL,
  cancel_requested_at INTEGER,
  reason TEXT,
  last_status INTEGER,
  last_error TEXT,
  redriven_to TEXT,
  finished_at INTEGER,
  UNIQUE (tenant_id, task_id)
) STRICT;
CREATE INDEX tasks_due ON tasks (destination_id, lane, next_attempt_at) WHERE status = 0;
CREATE INDEX tasks_claimed ON tasks (claimed_by) WHERE status = 1;
CREATE INDEX tasks_finished ON tasks (status, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_dead ON tasks (tenant_id, task_id) WHERE status = 3;

CREATE TABLE payloads (
  ref INTEGER PRIMARY KEY,
  created_at INTEGER NOT NULL,
  scheduled_at INTEGER NOT NULL,
  deadline_at INTEGER,
  idempotency_key TEXT,
  target_url TEXT NOT NULL,
  method TEXT NOT NULL,
  headers TEXT NOT NULL,
  policy_id TEXT NOT NULL,
  policy_version INTEGER NOT NULL,
  idempotent INTEGER NOT NULL,
  labels TEXT NOT NULL,
  callback_url TEXT,
  redriven_from TEXT,
  body_ref TEXT,
  body BLOB
) STRICT;
-- Unused policies are found without reading every task.
CREATE INDEX payloads_inline ON payloads (policy_id)
  WHERE policy_id >= 'inline.' AND policy_id < 'inline/';

CREATE TABLE idempotency_keys (
  tenant_id TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  task_id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (tenant_id, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_expiry ON idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE attempts (
  ref INTEGER NOT NULL,
  attempt_number INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  dns_ms REAL,
  connect_ms REAL,
  tls_ms REAL,
  first_byte_ms REAL,
  outcome TEXT NOT NULL,
  response_status INTEGER,
  error_class TEXT,
  error_message TEXT,
  next_delay_ms INTEGER,
  delay_source TEXT,
  response_headers TEXT,
  response_body BLOB,
  -- How long each attempt waited after it was due, and why. Null: it started on time.
  waits TEXT,
  PRIMARY KEY (ref, attempt_number)
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
  destination_id INTEGER NOT NULL,
  status INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (destination_id, status)
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
  kind TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (kind, tenant_id, id)
) STRICT, WITHOUT ROWID;

-- Where the sweep of idempotency keys stopped, by state of the ended tasks. Only keys whose task was
-- removed have an "expires_at".
CREATE TABLE key_sweeps (
  status INTEGER PRIMARY KEY,
  finished_at INTEGER NOT NULL,
  ref INTEGER NOT NULL
) STRICT;
INSERT INTO key_sweeps VALUES (2, 0, 0), (3, 0, 0), (4, 0, 0);
`;

/**
 * `task_terms` is an index of labels, and of idempotency keys under the empty name, which no label
 * has. The current task of a key is in `idempotency_keys` already and has no row here: only tasks
 * without a row there do, such as redriven ones, and tasks that outlive their key. Triggers maintain
 * it like any index. They join `tasks`, whose row is inserted before the payload and deleted after.
 */
const LABELS = (row: "new" | "old") => `
  SELECT t.tenant_id, l.key AS name, l.value, t.task_id, t.ref
  FROM tasks t, json_each(${row}.labels) l WHERE t.ref = ${row}.ref`;

const HAS_NO_KEY_ROW = `NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.tenant_id = t.tenant_id
  AND k.idempotency_key = p.idempotency_key AND k.task_id = t.task_id)`;

const KEYS = `SELECT t.tenant_id, '', p.idempotency_key, t.task_id, t.ref
  FROM tasks t JOIN payloads p ON p.ref = t.ref
  WHERE p.idempotency_key IS NOT NULL AND ${HAS_NO_KEY_ROW}`;

/**
 * The indexes that lists read. Each is sorted by task id, so a list reads any of them newest first.
 * Claims and retries change none of them. The reason for each and its cost are in docs/decisions/0021.
 * An entry of `tasks_open` has `finished_at`, always null: without it, SQLite reads every row to check
 * the condition of the index.
 */
const LIST_INDEXES = `
CREATE INDEX tasks_open ON tasks (tenant_id, task_id, finished_at) WHERE finished_at IS NULL;
CREATE INDEX tasks_canceled ON tasks (tenant_id, task_id) WHERE status = 4;
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_dead_of_destination ON tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX tasks_dead_reason ON tasks (tenant_id, reason, task_id) WHERE status = 3;

CREATE TABLE task_terms (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  task_id TEXT NOT NULL,
  ref INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, value, task_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER labels_added AFTER INSERT ON payloads WHEN new.labels <> '{}'
BEGIN INSERT OR IGNORE INTO task_terms ${LABELS("new")}; END;

CREATE TRIGGER labels_removed BEFORE DELETE ON payloads WHEN old.labels <> '{}'
BEGIN
  DELETE FROM task_terms WHERE (tenant_id, name, value, task_id) IN
    (SELECT tenant_id, name, value, task_id FROM (${LABELS("old")}));
END;

CREATE TRIGGER key_of_other_task_added AFTER INSERT ON payloads WHEN new.idempotency_key IS NOT NULL
BEGIN INSERT OR IGNORE INTO task_terms ${KEYS} AND p.ref = new.ref; END;

CREATE TRIGGER key_of_other_task_removed BEFORE DELETE ON payloads
WHEN old.idempotency_key IS NOT NULL
BEGIN
  DELETE FROM task_terms WHERE name = '' AND value = old.idempotency_key AND
    (tenant_id, task_id) = (SELECT t.tenant_id, t.task_id FROM tasks t WHERE t.ref = old.ref);
END;

CREATE TRIGGER key_expired AFTER DELETE ON idempotency_keys
BEGIN
  INSERT OR IGNORE INTO task_terms
    SELECT t.tenant_id, '', old.idempotency_key, t.task_id, t.ref FROM tasks t
    WHERE t.tenant_id = old.tenant_id AND t.task_id = old.task_id;
END;
`;

/** Each is SQL text. The number of a migration is its position, counted from 1. */
export const MIGRATIONS: readonly string[] = [
  `${TABLES} ${LIST_INDEXES} PRAGMA application_id = ${APPLICATION_ID};`,
];

/** The schema that this version writes. A file with a higher number is rejected. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Runs the migrations that the file lacks. A crash at any statement leaves the file at the number
 * before; the next open continues there.
 */
export function migrate(
  database: Database,
  from: number,
  migrations: readonly string[] = MIGRATIONS,
): void {
  for (const [index, migration] of migrations.entries()) {
    if (index < from) continue;
    try {
      database.exec(`
        BEGIN IMMEDIATE;
        ${migration}
        PRAGMA user_version = ${index + 1};
        COMMIT`);
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
}
