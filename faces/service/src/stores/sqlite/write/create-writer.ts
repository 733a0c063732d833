/**
 * Create writer: inserts new tasks and their idempotency keys. A task that is due at once may be
 * inserted already claimed, which saves a second write.
 */
import { type Create, type CreateResult, freshClaim } from "../../../model/batch.ts";
import type { NewTask } from "../../../model/task.ts";
import type { Sql } from "../file/sql.ts";
import { type Cell, headersText } from "../rows/codec.ts";
import { INSERT_PAYLOAD, INSERT_PLAIN_PAYLOAD, isPlain, payloadCells } from "../rows/task-rows.ts";
import type { DestinationTable, StoredDestination } from "../tables/destination-table.ts";
import { type BatchContext, mayClaim } from "./batch-context.ts";
import { claimFor } from "./new-task-claims.ts";

/** Does the policy version of the task exist? */
export type HasPolicy = (task: NewTask) => boolean;

const UNKNOWN_POLICY: CreateResult = { kind: "unknown-policy" };

export function createWriter(
  sql: Sql,
  destinations: DestinationTable,
  hasPolicy: HasPolicy,
): (create: Create, context: BatchContext) => CreateResult {
  const { findKey, writeKey } = keyWriter(sql);
  const { findRedriven, markSource } = sourceMarkWriter(sql);
  const insertRows = rowInserter(sql, destinations);

  return (create, context) => {
    const { task, claimVersion } = create;
    const existing = findKey(create) ?? findRedriven(task);
    if (existing !== null) return existing;
    if (!hasPolicy(task)) return UNKNOWN_POLICY;
    writeKey(create);
    markSource(task);
    const stored = destinations.getOrInsert(task.tenantId, task.destination);
    if (claimVersion !== null && mayClaim(context, stored, claimVersion)) {
      const ref = insert(task, stored, context);
      return { kind: "created", started: freshClaim(task, ref, context.now), row: null };
    }
    insertWithoutPermit(task, stored, context);
    return { kind: "created", started: null, row: claimVersion === null ? null : stored.row };
  };

  /** Inserts the task claimed by `claimant`, or waiting. */
  function insert(task: NewTask, stored: StoredDestination, claimant: BatchContext | null): number {
    const ref = insertRows(task, stored.id, claimant);
    destinations.tally(stored, null, claimant === null ? "PENDING" : "IN_FLIGHT");
    if (claimant !== null) destinations.keepClaim(ref, FIRST_EPOCH, task.taskId, stored);
    return ref;
  }

  /** The task may use the permit of a claim. It is then in the result of the claim. */
  function insertWithoutPermit(task: NewTask, stored: StoredDestination, context: BatchContext) {
    const { newTaskClaims, now } = context;
    const claim = newTaskClaims && claimFor(newTaskClaims, stored, task, now);
    const ref = insert(task, stored, claim === undefined ? null : context);
    claim?.started.push(freshClaim(task, ref, now));
  }
}

/** The claim epoch of a task that is inserted already claimed. */
const FIRST_EPOCH = 1;

/** Inserts the rows of a new task, waiting or claimed by the writing node; returns its row number. */
function rowInserter(sql: Sql, destinations: DestinationTable) {
  const columns = `ref, tenant_id, task_id, destination_id, status, lane, next_attempt_at,
    attempt_number, claim_epoch, claimed_by, claimed_at, last_delay_ms, abandoned_count`;
  const insertWaiting = sql.prepare(`INSERT INTO tasks (${columns})
    VALUES (?, ?, ?, ?, 0, 0, ?, 0, 0, NULL, NULL, 0, 0)`);
  const insertClaimed = sql.prepare(`INSERT INTO tasks (${columns})
    VALUES (?, ?, ?, ?, 1, 0, ?, 1, ${FIRST_EPOCH}, ?, ?, 0, 0)`);
  const insertPayload = sql.prepare(INSERT_PAYLOAD);
  const insertPlain = sql.prepare(INSERT_PLAIN_PAYLOAD);

  return (task: NewTask, destinationId: number, claimant: BatchContext | null): number => {
    const { tenantId, taskId, scheduledAt } = task;
    const ref = destinations.newRef();
    if (claimant === null) insertWaiting.get(ref, tenantId, taskId, destinationId, scheduledAt);
    else {
      const { node, now } = claimant;
      insertClaimed.get(ref, tenantId, taskId, destinationId, scheduledAt, node, now);
    }
    if (isPlain(task)) {
      insertPlain.get(
        ref,
        task.createdAt,
        scheduledAt,
        task.idempotencyKey,
        task.targetUrl,
        headersText(task.headers),
        task.policyId,
        task.policyVersion,
        task.body,
      );
    } else insertPayload.get(...payloadCells(ref, task));
    return ref;
  };
}

interface KeyWriter {
  /** The task that already has the key; null: none. */
  findKey(create: Create): CreateResult | null;
  writeKey(create: Create): void;
}

/** The first task with a key gets it. */
function keyWriter(sql: Sql): KeyWriter {
  const find = sql.prepare(
    "SELECT task_id, fingerprint FROM idempotency_keys WHERE tenant_id = ? AND idempotency_key = ?",
  );
  const insert = sql.prepare("INSERT INTO idempotency_keys VALUES (?, ?, ?, ?, NULL)");
  return {
    findKey({ task: { tenantId, idempotencyKey }, fingerprint }) {
      if (fingerprint === null || idempotencyKey === null) return null;
      const known = find.get(tenantId, idempotencyKey) as unknown as readonly string[] | undefined;
      if (known === undefined) return null;
      const [taskId = "", knownFingerprint] = known;
      return { kind: knownFingerprint === fingerprint ? "replayed" : "conflict", taskId };
    },
    writeKey({ task: { tenantId, taskId, idempotencyKey }, fingerprint }) {
      if (fingerprint === null || idempotencyKey === null) return;
      insert.get(tenantId, idempotencyKey, taskId, fingerprint);
    },
  };
}

interface SourceMarkWriter {
  /** The task that the source was redriven to; null: none. */
  findRedriven(task: NewTask): CreateResult | null;
  markSource(task: NewTask): void;
}

/** A source is redriven once. */
function sourceMarkWriter(sql: Sql): SourceMarkWriter {
  const mark = sql.prepare("UPDATE tasks SET redriven_to = ? WHERE tenant_id = ? AND task_id = ?");
  const find = sql.prepare("SELECT redriven_to FROM tasks WHERE tenant_id = ? AND task_id = ?");
  return {
    findRedriven({ tenantId, redrivenFrom }) {
      if (redrivenFrom === null) return null;
      const cells = find.get(tenantId, redrivenFrom) as unknown as readonly Cell[] | undefined;
      const taskId = cells?.[0] ?? null;
      return taskId === null ? null : { kind: "redriven", taskId: taskId as string };
    },
    markSource({ tenantId, taskId, redrivenFrom }) {
      if (redrivenFrom !== null) mark.run(taskId, tenantId, redrivenFrom);
    },
  };
}
