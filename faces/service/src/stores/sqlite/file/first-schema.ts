/**
 * First schema: the tables of the SQLite store as the first version created them. Later changes are
 * in `migrations.ts`. The tables are STRICT, so that a column holds its declared
 * type. Bytes are BLOBs, because text is cut at NUL. `tasks` holds what every attempt changes,
 * `payloads` what never changes, so a claim rewrites two hundred bytes and not a body.
 */

/** "RDRV": marks a file as ours. */
export const APPLICATION_ID = 0x52445256;

/** Migration 1. Files in use were created by it, so it never changes. */
export const FIRST_SCHEMA = `
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
  PRIMARY KEY (ref, attempt_number)
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
  destination_id INTEGER NOT NULL,
  status INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (destination_id, status)
) STRICT, WITHOUT ROWID;
`;
