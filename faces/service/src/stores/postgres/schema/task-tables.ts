/**
 * Task tables: migration 3, the tables of tasks by what happens to their rows. A row of `tasks` never
 * changes. Its state moves: it is in `waiting_tasks`, in `claimed_tasks` or in `ended_tasks`. To move
 * it is to delete a row and to insert one, which costs less than to update a row with indexes, and the
 * first two tables stay as small as what waits and runs.
 *
 * The last attempt of a task is stored with its end. Earlier attempts are in `attempts`.
 */

/**
 * The fields of a task in the order of its payload: a list in JSON without its first bracket, as
 * `payloadOf` in `rows/task-rows.ts` writes it.
 */
const PAYLOAD_FIELDS = [
  ...["taskId", "tenantId", "idempotencyKey", "destination", "targetUrl", "method", "headers"],
  ...["bodyRef", "policyId", "policyVersion", "idempotent", "deadlineAt", "createdAt"],
  ...["scheduledAt", "labels", "callbackUrl", "redrivenFrom"],
];

/** An object in JSON becomes such a list. Type json keeps each value as it is written. */
const payloadList = PAYLOAD_FIELDS.map(
  (field) => `coalesce((p.payload::json->'${field}')::text, 'null')`,
).join(" || ',' || ");

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

const NEW_TABLES = `
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
);
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_of_key ON tasks (tenant_id, idempotency_key, task_id)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_of_policy ON tasks (tenant_id, policy_id) WHERE policy_version > 0;

CREATE TABLE waiting_tasks (${STATE_COLUMNS},
  PRIMARY KEY (tenant_id, task_id)
) WITH (${SHORT_LIVED});
CREATE INDEX waiting_tasks_due
  ON waiting_tasks (partition, destination_id, lane, next_attempt_at, ref);

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
);
CREATE INDEX ended_tasks_by_end ON ended_tasks (finished_at) WHERE status IN (2, 4);
CREATE INDEX dead_tasks_by_end ON ended_tasks (finished_at) WHERE status = 3;
CREATE INDEX dead_tasks ON ended_tasks (tenant_id, task_id) WHERE status = 3;
CREATE INDEX dead_tasks_of_destination ON ended_tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX canceled_tasks ON ended_tasks (tenant_id, task_id) WHERE status = 4;
`;

const STATE = `o.ref, o.next_attempt_at, o.last_delay_ms, o.destination_id, o.attempt_number,
  o.claim_epoch, o.abandoned_count, o.last_status, o.partition, o.lane, t.tenant_id, t.task_id,
  t.idempotency_key, CASE WHEN t.policy_version > 0 THEN t.policy_id END, o.last_error`;

/** Attempts get the name of their task: without an index of refs, it says whether the task exists. */
const MOVED_ROWS = `
INSERT INTO tasks
SELECT t.ref, t.created_at, t.destination_id, t.policy_version, t.tenant_id, t.task_id, t.policy_id,
  t.idempotency_key, t.redriven_to, ${payloadList} || ']', p.body
FROM old_tasks t JOIN payloads p ON p.ref = t.ref;

INSERT INTO waiting_tasks SELECT ${STATE}
FROM old_tasks t JOIN open_tasks o ON o.ref = t.ref WHERE t.status = 0 AND o.status = 0;

INSERT INTO claimed_tasks SELECT ${STATE}, o.claimed_at, o.cancel_requested_at, o.claimed_by
FROM old_tasks t JOIN open_tasks o ON o.ref = t.ref WHERE t.status = 0 AND o.status = 1;

INSERT INTO claimants SELECT DISTINCT claimed_by FROM claimed_tasks;

INSERT INTO ended_tasks
SELECT ref, finished_at, next_attempt_at, last_delay_ms, cancel_requested_at, destination_id,
  attempt_number, claim_epoch, abandoned_count, last_status, status, lane, tenant_id, task_id, reason,
  last_error
FROM old_tasks WHERE status > 0;

ALTER TABLE attempts ADD tenant_id text COLLATE "C", ADD task_id text COLLATE "C";
UPDATE attempts a SET tenant_id = t.tenant_id, task_id = t.task_id
FROM old_tasks t WHERE t.ref = a.ref;
`;

export const MOVE_TASKS = `
ALTER TABLE tasks RENAME TO old_tasks;
ALTER TABLE old_tasks RENAME CONSTRAINT tasks_pkey TO old_tasks_pkey;
DROP INDEX tasks_of_destination, tasks_of_key, tasks_of_policy;
${NEW_TABLES}
${MOVED_ROWS}
-- The number of the node's last report. At the end, so that nodes renew their leases until then.
ALTER TABLE nodes ADD round bigint NOT NULL DEFAULT 0;
DROP TABLE old_tasks, open_tasks, payloads;
ANALYZE tasks, waiting_tasks, claimed_tasks, ended_tasks;
`;
