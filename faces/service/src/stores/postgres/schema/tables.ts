/**
 * Tables: the tables of the PostgreSQL store. A row of `tasks` never changes. Its state moves: it is in
 * `waiting_tasks`, in `claimed_tasks` or in `ended_tasks`. To move it is to delete a row and to insert
 * one, which costs less than to update a row with indexes, and the first two tables stay as small as what
 * waits and runs. The last attempt of a task is stored with its end. Earlier attempts are in `attempts`.
 *
 * Text is compared by its bytes (COLLATE "C"), so that pages continue where JavaScript expects.
 */

/** What a task has while it waits and while it is claimed. */
const STATE_COLUMNS = `
  ref bigint NOT NULL,
  next_attempt_at bigint NOT NULL,
  last_delay_ms bigint NOT NULL DEFAULT 0,
  destination_id int NOT NULL,
  attempt_number int NOT NULL,
  claim_epoch int NOT NULL,
  abandoned_count int NOT NULL DEFAULT 0,
  last_status int,
  partition smallint NOT NULL,
  lane smallint NOT NULL DEFAULT 0,
  tenant_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  -- Null: a preset.
  policy_id text COLLATE "C",
  last_error text`;

/** Their rows live for seconds, so the dead ones are removed often. */
const SHORT_LIVED = `autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0`;

/**
 * Their rows live for the retention, and then die as fast as tasks end. At a server's default pace, a vacuum
 * would take longer than the rows take to die.
 */
const RETAINED = "autovacuum_vacuum_cost_limit = 1000";

/** Numbers of statuses: 0 PENDING, 1 IN_FLIGHT, 2 SUCCEEDED, 3 EXHAUSTED, 4 CANCELLED. */
export const TABLES = `
CREATE SEQUENCE task_refs;

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
-- The highest version of the rows of destinations that were removed. One row; none: nothing was removed.
CREATE TABLE removed_versions (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  version int NOT NULL
);
CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';

CREATE TABLE tasks (
  ref bigint NOT NULL,
  created_at bigint NOT NULL,
  destination_id int NOT NULL,
  policy_version int NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  policy_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  redriven_to text COLLATE "C",
  payload text NOT NULL,
  body bytea,
  PRIMARY KEY (tenant_id, task_id)
) WITH (${RETAINED});
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_of_key ON tasks (tenant_id, idempotency_key, task_id)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_of_policy ON tasks (tenant_id, policy_id) WHERE policy_version > 0;

CREATE TABLE waiting_tasks (${STATE_COLUMNS},
  PRIMARY KEY (tenant_id, task_id)
) WITH (${SHORT_LIVED});
CREATE INDEX waiting_tasks_due
  ON waiting_tasks (partition, destination_id, lane, next_attempt_at, ref);
-- A node finds what is due soon, whatever waits for later.
CREATE INDEX waiting_tasks_by_time ON waiting_tasks (partition, next_attempt_at, ref);

CREATE TABLE claimed_tasks (${STATE_COLUMNS},
  claimed_at bigint NOT NULL,
  cancel_requested_at bigint,
  claimed_by text COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant_id, task_id)
) WITH (${SHORT_LIVED});

-- The nodes that may have claims. An index of the claims by node would cost more than a claim.
CREATE TABLE claimants (node_id text COLLATE "C" PRIMARY KEY);

-- status: 2 SUCCEEDED, 3 EXHAUSTED, 4 CANCELLED. "log" is null if no attempt ended the task.
CREATE TABLE ended_tasks (
  ref bigint PRIMARY KEY,
  finished_at bigint NOT NULL,
  next_attempt_at bigint NOT NULL,
  last_delay_ms bigint NOT NULL,
  cancel_requested_at bigint,
  destination_id int NOT NULL,
  attempt_number int NOT NULL,
  claim_epoch int NOT NULL,
  abandoned_count int NOT NULL,
  last_status int,
  status smallint NOT NULL,
  lane smallint NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  reason text,
  last_error text,
  log text,
  response_body bytea
) WITH (${RETAINED});
CREATE INDEX ended_tasks_by_end ON ended_tasks (finished_at) WHERE status IN (2, 4);
CREATE INDEX dead_tasks_by_end ON ended_tasks (finished_at) WHERE status = 3;
CREATE INDEX dead_tasks ON ended_tasks (tenant_id, task_id) WHERE status = 3;
CREATE INDEX dead_tasks_of_destination ON ended_tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX canceled_tasks ON ended_tasks (tenant_id, task_id) WHERE status = 4;

CREATE TABLE task_labels (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  ref bigint NOT NULL
) WITH (${RETAINED});
CREATE INDEX task_labels_of_value ON task_labels (tenant_id, name, value, task_id);
CREATE INDEX task_labels_of_task ON task_labels (ref);

CREATE TABLE idempotency_keys (
  tenant_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant_id, idempotency_key)
) WITH (fillfactor = 80, ${RETAINED});
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)
  WHERE expires_at IS NOT NULL;

-- With the name of their task: without an index of refs, it says whether the task exists.
CREATE TABLE attempts (
  ref bigint NOT NULL,
  attempt_number int NOT NULL,
  day int NOT NULL,
  log text NOT NULL,
  response_body bytea,
  tenant_id text COLLATE "C",
  task_id text COLLATE "C"
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
  is_leaving boolean NOT NULL,
  -- The number of the node's last report.
  round bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

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
