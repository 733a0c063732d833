/**
 * Row writer: adds rows to a PostgreSQL store as they are. The rows of a kind are one JSON text, and the
 * bytes of all bodies are sent in one piece.
 */
import { partitionOf } from "../../../model/partition.ts";
import { StoreRefusedError } from "../../../model/store-errors.ts";
import { partsOf } from "../../../model/transfer/rows.ts";
import type { TransferKind, TransferRows, TransferTask } from "../../../model/transfer/transfer.ts";
import type { Run } from "../connection/sql.ts";
import { storedJson } from "../connection/stored-text.ts";
import { logOf } from "../rows/attempt-rows.ts";
import { laneNumber, statusNumber } from "../rows/codes.ts";
import { PARTITIONS } from "../rows/partitions.ts";
import { payloadOf } from "../rows/task-rows.ts";
import { ByteParts } from "../write/byte-parts.ts";

export type AddRows<Kind extends TransferKind> = (
  run: Run,
  rows: readonly TransferRows[Kind][],
) => Promise<void>;

/** The columns and types of rows in the first parameter. */
const given = (columns: string) => `jsonb_to_recordset($1::jsonb) AS r (${columns})`;

/** The body of a row, of the bytes in the second parameter. Null without a length. */
const BODY = "substring($2::bytea FROM r.body_at + 1 FOR r.body_length)";

const ADD_POLICIES = `INSERT INTO redrive.policies
    (tenant_id, policy_id, version, document, created_at, removed_at)
  SELECT * FROM ${given(`"tenantId" text, "policyId" text, version int, document text,
    "createdAt" bigint, "removedAt" bigint`)}`;

/** A destination that has tasks may have a row of version 0. */
const ADD_DESTINATIONS = `INSERT INTO redrive.destinations AS d (tenant_id, name, version, document,
    paused_at, gate_until, breaker_state, open_until, open_count)
  SELECT * FROM ${given(`"tenantId" text, name text, version int, document text, "pausedAt" bigint,
    "gateUntil" bigint, "breakerState" text, "openUntil" bigint, "openCount" int`)}
  ON CONFLICT (tenant_id, name) DO UPDATE SET version = excluded.version,
    document = excluded.document, paused_at = excluded.paused_at, gate_until = excluded.gate_until,
    breaker_state = excluded.breaker_state, open_until = excluded.open_until,
    open_count = excluded.open_count WHERE d.version = 0`;

const ADD_DOCUMENTS = `INSERT INTO redrive.documents (kind, tenant_id, id, version, text)
  SELECT * FROM ${given(`kind text, "tenantId" text, id text, version int, text text`)}`;

const ADD_NAMES = `INSERT INTO redrive.destinations (tenant_id, name)
  SELECT DISTINCT r.tenant_id, r.destination FROM ${given("tenant_id text, destination text")}
  ON CONFLICT DO NOTHING`;

/** The state of a task that waits or is claimed, of a row `f`. */
const STATE_COLUMNS = `ref, next_attempt_at, last_delay_ms, destination_id, attempt_number,
  claim_epoch, abandoned_count, last_status, partition, lane, tenant_id, task_id, idempotency_key,
  last_error`;

/** Null for a preset. */
const NAMED_POLICY = "CASE WHEN f.policy_version > 0 THEN f.policy_id END";

const ADD_TASKS = `WITH fresh AS MATERIALIZED (
    SELECT nextval('redrive.task_refs') AS ref, d.destination_id, r.*, ${BODY} AS body
    FROM ${given(`tenant_id text, task_id text, destination text, status int, lane int,
      attempt_number int, next_attempt_at bigint, claim_epoch int, claimed_by text,
      claimed_at bigint, last_delay_ms bigint, abandoned_count int, cancel_requested_at bigint,
      last_status int, last_error text, reason text, redriven_to text, created_at bigint,
      finished_at bigint, policy_id text, policy_version int, idempotency_key text,
      fingerprint text, expires_at bigint, partition int, payload text, labels jsonb, body_at int,
      body_length int`)}
    JOIN redrive.destinations d ON d.tenant_id = r.tenant_id AND d.name = r.destination
  ), stored AS (
    INSERT INTO redrive.tasks (ref, created_at, destination_id, policy_version, tenant_id, task_id,
      policy_id, idempotency_key, redriven_to, payload, body)
    SELECT f.ref, f.created_at, f.destination_id, f.policy_version, f.tenant_id, f.task_id,
      f.policy_id, f.idempotency_key, f.redriven_to, f.payload, f.body
    FROM fresh f
  ), waiting AS (
    INSERT INTO redrive.waiting_tasks (${STATE_COLUMNS}, policy_id)
    SELECT ${STATE_COLUMNS}, ${NAMED_POLICY} FROM fresh f WHERE f.status = 0
  ), claimed AS (
    INSERT INTO redrive.claimed_tasks
      (${STATE_COLUMNS}, policy_id, claimed_at, cancel_requested_at, claimed_by)
    SELECT ${STATE_COLUMNS}, ${NAMED_POLICY}, f.claimed_at, f.cancel_requested_at, f.claimed_by
    FROM fresh f WHERE f.status = 1
  ), claimants AS (
    INSERT INTO redrive.claimants SELECT DISTINCT f.claimed_by FROM fresh f WHERE f.status = 1
    ON CONFLICT DO NOTHING
  ), ended AS (
    INSERT INTO redrive.ended_tasks (ref, finished_at, next_attempt_at, last_delay_ms,
      cancel_requested_at, destination_id, attempt_number, claim_epoch, abandoned_count, last_status,
      status, lane, tenant_id, task_id, reason, last_error)
    SELECT f.ref, f.finished_at, f.next_attempt_at, f.last_delay_ms, f.cancel_requested_at,
      f.destination_id, f.attempt_number, f.claim_epoch, f.abandoned_count, f.last_status, f.status,
      f.lane, f.tenant_id, f.task_id, f.reason, f.last_error
    FROM fresh f WHERE f.status > 1
  ), labeled AS (
    INSERT INTO redrive.task_labels (tenant_id, name, value, task_id, ref)
    SELECT f.tenant_id, l->>0, l->>1, f.task_id, f.ref
    FROM fresh f CROSS JOIN LATERAL jsonb_array_elements(f.labels) l
  ), keyed AS (
    INSERT INTO redrive.idempotency_keys
      (tenant_id, idempotency_key, task_id, fingerprint, expires_at)
    SELECT f.tenant_id, f.idempotency_key, f.task_id, f.fingerprint, f.expires_at
    FROM fresh f WHERE f.fingerprint IS NOT NULL
  ), counted AS (
    INSERT INTO redrive.counts AS c (tenant_id, destination_id, status, node_id, count)
    SELECT f.tenant_id, f.destination_id, f.status, '', count(*) FROM fresh f GROUP BY 1, 2, 3
    ON CONFLICT (tenant_id, destination_id, status, node_id)
    DO UPDATE SET count = c.count + excluded.count
  )
  SELECT count(*) FROM fresh`;

/** A day that is never added, so these attempts are no copies of others. */
const NO_DAY = -1;

const MISSING_TASK = `SELECT r.task_id FROM ${given("tenant_id text, task_id text")}
  WHERE NOT EXISTS (SELECT FROM redrive.tasks t
    WHERE t.tenant_id = r.tenant_id AND t.task_id = r.task_id) LIMIT 1`;

/** Like attempts whose day was removed: they stay as long as their task. */
const ADD_ATTEMPTS = `INSERT INTO redrive.kept_attempts
    (ref, attempt_number, day, log, response_body)
  SELECT t.ref, r.attempt_number, ${NO_DAY}, r.log, ${BODY}
  FROM ${given(`tenant_id text, task_id text, attempt_number int, log text, body_at int,
    body_length int`)}
  JOIN redrive.tasks t ON t.tenant_id = r.tenant_id AND t.task_id = r.task_id`;

const ADD_KEYS = `INSERT INTO redrive.idempotency_keys
    (tenant_id, idempotency_key, task_id, fingerprint, expires_at)
  SELECT * FROM ${given(`"tenantId" text, "idempotencyKey" text, "taskId" text, fingerprint text,
    "expiresAt" bigint`)}`;

/** For rows whose columns have the names of their fields. */
function adder<Kind extends TransferKind>(sql: string): AddRows<Kind> {
  return async (run, rows) => void (await run(sql, [storedJson(rows)]));
}

export const ADD_ROWS: { readonly [Kind in TransferKind]: AddRows<Kind> } = {
  policy: adder(ADD_POLICIES),
  destination: adder(ADD_DESTINATIONS),
  document: adder(ADD_DOCUMENTS),
  async task(run, rows) {
    const bytes = new ByteParts();
    const json = storedJson(rows.map((row) => taskCells(row, bytes)));
    await run(ADD_NAMES, [json]);
    await run(ADD_TASKS, [json, bytes.joined()]);
  },
  async attempt(run, rows) {
    const bytes = new ByteParts();
    const cells = rows.map(({ tenantId, taskId, ...log }) => {
      const { start, length } = bytes.add(log.responseBody);
      const name = { tenant_id: tenantId, task_id: taskId, attempt_number: log.attemptNumber };
      return { ...name, log: logOf(log), body_at: start, body_length: length };
    });
    const json = storedJson(cells);
    const [missing] = await run(MISSING_TASK, [json]);
    if (missing !== undefined) {
      throw new StoreRefusedError(`the task ${missing[0]} of an attempt is missing`);
    }
    await run(ADD_ATTEMPTS, [json, bytes.joined()]);
  },
  key: adder(ADD_KEYS),
};

function taskCells(row: TransferTask, bytes: ByteParts): object {
  const { key, ...task } = row;
  const { start, length } = bytes.add(task.body);
  return {
    tenant_id: task.tenantId,
    task_id: task.taskId,
    destination: task.destination,
    status: statusNumber(task.status),
    lane: laneNumber(task.lane),
    attempt_number: task.attemptNumber,
    next_attempt_at: task.nextAttemptAt,
    claim_epoch: task.claimEpoch,
    claimed_by: task.claimedBy,
    claimed_at: task.claimedAt,
    last_delay_ms: task.lastDelayMs,
    abandoned_count: task.abandonedCount,
    cancel_requested_at: task.cancelRequestedAt,
    last_status: task.lastStatus,
    last_error: task.lastError,
    reason: task.reason,
    redriven_to: task.redrivenTo,
    created_at: task.createdAt,
    finished_at: task.finishedAt,
    policy_id: task.policyId,
    policy_version: task.policyVersion,
    idempotency_key: task.idempotencyKey,
    fingerprint: key?.fingerprint ?? null,
    expires_at: key?.expiresAt ?? null,
    partition: partitionOf(task.taskId, PARTITIONS),
    payload: payloadOf(partsOf(row).task),
    labels: Object.entries(task.labels),
    body_at: start,
    body_length: length,
  };
}
