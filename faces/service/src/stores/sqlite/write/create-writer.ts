/**
 * Create writer: inserts new tasks and their idempotency keys. A task that is due at once may be
 * inserted already claimed, which saves a second write.
 */
import type { Create, CreateResult, StartedTask } from "../../../model/batch.ts";
import type { NewTask } from "../../../model/task.ts";
import type { Sql } from "../file/sql.ts";
import type { Cell } from "../rows/codec.ts";
import { INSERT_PAYLOAD, payloadCells } from "../rows/task-rows.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { type BatchContext, mayClaim } from "./batch-context.ts";

export function createWriter(
  sql: Sql,
  destinations: DestinationTable,
): (create: Create, context: BatchContext) => CreateResult {
  const writeKey = keyWriter(sql);
  const markSource = sourceMarkWriter(sql);
  const insertTask =
    sql.prepare(`INSERT INTO tasks (tenant_id, task_id, destination_id, status, lane,
    next_attempt_at, attempt_number, claim_epoch, claimed_by, claimed_at, last_delay_ms,
    abandoned_count) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, 0, 0)`);
  const insertPayload = sql.prepare(INSERT_PAYLOAD);

  return (create, context) => {
    const { task, claimVersion } = create;
    const existing = writeKey(create) ?? markSource(task);
    if (existing !== null) return existing;
    const stored = destinations.getOrInsert(task.tenantId, task.destination);
    const claimed = claimVersion !== null && mayClaim(context, stored, claimVersion);
    const { lastInsertRowid } = insertTask.run(
      ...taskCells(task, stored.id, claimed ? context : null),
    );
    const ref = Number(lastInsertRowid);
    insertPayload.run(...payloadCells(ref, task));
    destinations.tally(stored, null, claimed ? "IN_FLIGHT" : "PENDING");
    if (claimed) return { kind: "created", started: freshClaim(task, ref, context.now), row: null };
    return { kind: "created", started: null, row: claimVersion === null ? null : stored.row };
  };
}

/** The cells of a new row of `tasks`: waiting, or claimed by the writing node. */
function taskCells(task: NewTask, destinationId: number, claimant: BatchContext | null): Cell[] {
  const { tenantId, taskId, scheduledAt } = task;
  const started = claimant === null ? 0 : 1;
  const { node = null, now = null } = claimant ?? {};
  return [tenantId, taskId, destinationId, started, scheduledAt, started, started, node, now];
}

/** The first task with a key gets it: null, or the task that already has the key. */
function keyWriter(sql: Sql): (create: Create) => CreateResult | null {
  const find = sql.prepare(
    "SELECT task_id, fingerprint FROM idempotency_keys WHERE tenant_id = ? AND idempotency_key = ?",
  );
  const insert = sql.prepare("INSERT INTO idempotency_keys VALUES (?, ?, ?, ?, NULL)");
  return ({ task, fingerprint }) => {
    const { tenantId, taskId, idempotencyKey } = task;
    if (fingerprint === null || idempotencyKey === null) return null;
    const known = find.get(tenantId, idempotencyKey) as unknown as readonly string[] | undefined;
    if (known === undefined) {
      insert.run(tenantId, idempotencyKey, taskId, fingerprint);
      return null;
    }
    const [knownId = "", knownFingerprint] = known;
    return { kind: knownFingerprint === fingerprint ? "replayed" : "conflict", taskId: knownId };
  };
}

/** A source is redriven once: null, or the task that it was redriven to. */
function sourceMarkWriter(sql: Sql): (task: NewTask) => CreateResult | null {
  const mark = sql.prepare(
    "UPDATE tasks SET redriven_to = ? WHERE tenant_id = ? AND task_id = ? AND redriven_to IS NULL",
  );
  const find = sql.prepare("SELECT redriven_to FROM tasks WHERE tenant_id = ? AND task_id = ?");
  return ({ tenantId, taskId, redrivenFrom }) => {
    if (redrivenFrom === null) return null;
    if (mark.run(taskId, tenantId, redrivenFrom).changes > 0) return null;
    const source = find.get(tenantId, redrivenFrom) as unknown as readonly string[] | undefined;
    return source === undefined ? null : { kind: "redriven", taskId: source[0] ?? "" };
  };
}

/** Field by field: with a spread, every claim would get its own hidden class. */
function freshClaim(task: NewTask, ref: number, claimedAt: number): StartedTask {
  return {
    taskId: task.taskId,
    tenantId: task.tenantId,
    idempotencyKey: task.idempotencyKey,
    destination: task.destination,
    targetUrl: task.targetUrl,
    method: task.method,
    headers: task.headers,
    body: task.body,
    bodyRef: task.bodyRef,
    policyId: task.policyId,
    policyVersion: task.policyVersion,
    idempotent: task.idempotent,
    deadlineAt: task.deadlineAt,
    createdAt: task.createdAt,
    scheduledAt: task.scheduledAt,
    labels: task.labels,
    callbackUrl: task.callbackUrl,
    redrivenFrom: task.redrivenFrom,
    ref,
    attemptNumber: 1,
    claimEpoch: 1,
    claimedAt,
    nextAttemptAt: task.scheduledAt,
    lastDelayMs: 0,
    abandonedCount: 0,
    cancelRequestedAt: null,
    lastStatus: null,
  };
}
