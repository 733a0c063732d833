/**
 * First tables: the tables of the PostgreSQL store as migration 1 creates them. `open_tasks` holds
 * what every attempt changes, for tasks that wait or run: a claim rewrites a hundred bytes in a small
 * table. `tasks` holds what lists need, and is written twice: when a task is created and when it ends.
 * `payloads` never changes.
 *
 * Text is compared by its bytes (COLLATE "C"), so that pages continue where JavaScript expects.
 */

/** Numbers of statuses: 0 PENDING, 1 IN_FLIGHT, 2 SUCCEEDED, 3 EXHAUSTED, 4 CANCELLED. */
export const FIRST_TABLES = `
CREATE SEQUENCE task_refs;
CREATE SEQUENCE hint_ids;

CREATE TABLE destinations (
  destination_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  version int NOT NULL DEFAULT 0,
  document text,
  paused_at bigint,
  gate_until bigint NOT NULL DEFAULT 0,
  breaker_state text NOT NULL DEFAULT 'CLOSED',
  open_until bigint NOT NULL DEFAULT 0,
  open_count int NOT NULL DEFAULT 0,
  UNIQUE (tenant_id, name)
);
CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';

CREATE TABLE tasks (
  ref bigint PRIMARY KEY,
  created_at bigint NOT NULL,
  finished_at bigint,
  next_attempt_at bigint,
  last_delay_ms bigint,
  cancel_requested_at bigint,
  destination_id int NOT NULL,
  policy_version int NOT NULL,
  attempt_number int,
  claim_epoch int,
  abandoned_count int,
  last_status int,
  status smallint NOT NULL DEFAULT 0,
  lane smallint,
  tenant_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  policy_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  reason text,
  last_error text,
  redriven_to text COLLATE "C",
  UNIQUE (tenant_id, task_id)
) WITH (fillfactor = 90);
CREATE INDEX tasks_open ON tasks (tenant_id, task_id) INCLUDE (policy_id) WHERE status = 0;
CREATE INDEX tasks_dead ON tasks (tenant_id, task_id) WHERE status = 3;
CREATE INDEX tasks_canceled ON tasks (tenant_id, task_id) WHERE status = 4;
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_dead_of_destination ON tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX tasks_of_key ON tasks (tenant_id, idempotency_key, task_id)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_of_policy ON tasks (tenant_id, policy_id) WHERE policy_version > 0;
CREATE INDEX tasks_ended ON tasks (finished_at) WHERE status IN (2, 4);
CREATE INDEX tasks_dead_ended ON tasks (finished_at) WHERE status = 3;

CREATE TABLE open_tasks (
  ref bigint PRIMARY KEY,
  next_attempt_at bigint NOT NULL,
  claimed_at bigint,
  last_delay_ms bigint NOT NULL DEFAULT 0,
  cancel_requested_at bigint,
  destination_id int NOT NULL,
  attempt_number int NOT NULL,
  claim_epoch int NOT NULL,
  abandoned_count int NOT NULL DEFAULT 0,
  last_status int,
  partition smallint NOT NULL,
  lane smallint NOT NULL DEFAULT 0,
  status smallint NOT NULL,
  claimed_by text COLLATE "C",
  last_error text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX open_tasks_due ON open_tasks (partition, destination_id, lane, next_attempt_at, ref)
  WHERE status = 0;
CREATE INDEX open_tasks_claimed ON open_tasks (claimed_by, partition) WHERE status = 1;

CREATE TABLE payloads (
  ref bigint PRIMARY KEY,
  payload text NOT NULL,
  body bytea
);

CREATE TABLE task_labels (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  ref bigint NOT NULL
);
CREATE INDEX task_labels_of_value ON task_labels (tenant_id, name, value, task_id);
CREATE INDEX task_labels_of_task ON task_labels (ref);

CREATE TABLE idempotency_keys (
  tenant_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant_id, idempotency_key)
) WITH (fillfactor = 80);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)
  WHERE expires_at IS NOT NULL;

CREATE TABLE attempts (
  ref bigint NOT NULL,
  attempt_number int NOT NULL,
  day int NOT NULL,
  log text NOT NULL,
  response_body bytea
) PARTITION BY LIST (day);
CREATE INDEX attempts_of_task ON attempts (ref, attempt_number);

-- The days that have a partition, and how far each one was examined before its removal.
CREATE TABLE attempt_days (
  day int PRIMARY KEY,
  examined_ref bigint NOT NULL DEFAULT 0
);

-- Attempts of tasks that are kept longer than the partition of the attempt.
CREATE TABLE kept_attempts (
  ref bigint NOT NULL,
  attempt_number int NOT NULL,
  day int NOT NULL,
  log text NOT NULL,
  response_body bytea
);
CREATE INDEX kept_attempts_of_task ON kept_attempts (ref, attempt_number);

-- One slot per node that writes, so that nodes never wait for each other. The sum is the count.
CREATE TABLE counts (
  tenant_id text COLLATE "C" NOT NULL,
  destination_id int NOT NULL,
  status smallint NOT NULL,
  node_id text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (tenant_id, destination_id, status, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE policies (
  tenant_id text COLLATE "C" NOT NULL,
  policy_id text COLLATE "C" NOT NULL,
  version int NOT NULL,
  document text NOT NULL,
  created_at bigint NOT NULL,
  removed_at bigint,
  PRIMARY KEY (tenant_id, policy_id, version)
);

CREATE TABLE documents (
  kind text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  version int NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (kind, tenant_id, id)
);

CREATE TABLE nodes (
  node_id text COLLATE "C" PRIMARY KEY,
  lease_until bigint NOT NULL,
  takes_all boolean NOT NULL,
  is_leaving boolean NOT NULL
) WITH (fillfactor = 50);

-- One row per writing node and lane, so that writers never wait for each other.
CREATE TABLE hints (
  node_id text COLLATE "C" NOT NULL,
  partition smallint NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
  lane smallint NOT NULL,
  due_at bigint NOT NULL,
  hint_id bigint NOT NULL,
  PRIMARY KEY (partition, tenant_id, destination, lane, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX hints_of_id ON hints (hint_id);

-- What all nodes share of a destination. The row is locked while shares are granted.
CREATE TABLE limits (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  next_token_at double precision NOT NULL DEFAULT 0,
  next_retry_token_at double precision NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, name)
) WITH (fillfactor = 50);

-- What a node has of a destination, and what it reported last.
CREATE TABLE shares (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  node_id text COLLATE "C" NOT NULL,
  slots int NOT NULL,
  used int NOT NULL,
  retry_slots int NOT NULL,
  retry_used int NOT NULL,
  calls double precision NOT NULL,
  failures double precision NOT NULL,
  slow_calls double precision NOT NULL,
  demand double precision NOT NULL,
  PRIMARY KEY (tenant_id, name, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
`;
