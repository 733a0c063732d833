/**
 * Create writer: inserts new tasks and their idempotency keys. A task that is due at once may be
 * inserted already claimed, which saves a second write.
 */
import {
  type Batch,
  type ClaimRequest,
  type ClaimResult,
  type Create,
  type CreateResult,
  freshClaim,
  type StartedTask,
} from "../../model/batch.ts";
import type { NewTask } from "../../model/task.ts";
import {
  type BatchContext,
  mayClaim,
  type NewTaskClaims,
  type OpenClaim,
} from "./batch-context.ts";
import type { DestinationTable, StoredDestination } from "./destination-table.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import {
  type Cell,
  headersText,
  INSERT_PAYLOAD,
  INSERT_PLAIN_PAYLOAD,
  isPlain,
  laneNumber,
  payloadCells,
  STARTED_COLUMNS,
  startedOf,
} from "./rows.ts";

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
      return {
        kind: "created",
        started: freshClaim(task, ref, context.nodeId, context.now),
        row: null,
      };
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
    const { newTaskClaims, nodeId, now } = context;
    const claim = newTaskClaims && claimFor(newTaskClaims, stored, task, now);
    const ref = insert(task, stored, claim === undefined ? null : context);
    claim?.started.push(freshClaim(task, ref, nodeId, now));
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

// Claim writer: claims the due tasks of a lane. It reads a partial index of waiting tasks, so its
// cost does not depend on how many tasks there are. Permits that waiting tasks do not need go to new
// tasks of the same batch (`new-task-claims.ts`), which are then inserted already claimed.

export interface ClaimWriter {
  open(request: ClaimRequest, context: BatchContext): OpenClaim;
  finish(claim: OpenClaim, context: BatchContext): ClaimResult;
}

export function claimWriter(sql: Sql, destinations: DestinationTable): ClaimWriter {
  const select = sql.prepare(`SELECT ${STARTED_COLUMNS}
    FROM tasks t JOIN payloads p ON p.ref = t.ref
    WHERE t.destination_id = ? AND t.lane = ? AND t.status = 0 AND t.next_attempt_at <= ?
    ORDER BY t.next_attempt_at, t.ref LIMIT ${ANY_LIMIT}`);
  const start = sql.prepare(`UPDATE tasks SET status = 1, attempt_number = attempt_number + 1,
    claim_epoch = claim_epoch + 1, claimed_by = ?, claimed_at = ? WHERE ref = ?`);
  const nextDue = sql.prepare(`SELECT next_attempt_at FROM tasks
    WHERE destination_id = ? AND lane = ? AND status = 0 ORDER BY next_attempt_at LIMIT 1`);

  function open(request: ClaimRequest, context: BatchContext): OpenClaim {
    const { tenantId, destination, lane, limit, aheadMs, version } = request;
    const { now, nodeId } = context;
    const stored = destinations.getOrInsert(tenantId, destination);
    const isCurrent = mayClaim(context, stored, version);
    const rows = isCurrent ? select.all(stored.id, laneNumber(lane), now + aheadMs, limit) : [];
    const found = (rows as unknown as readonly Cell[][]).map((cells) =>
      startedOf(cells, { tenantId, destination }, nodeId, now),
    );
    const due = found.filter(({ nextAttemptAt }) => nextAttemptAt <= now);
    const ahead = found.slice(due.length);
    return { request, stored, isCurrent, due, ahead, started: [], isOutdated: false };
  }

  function take(stored: StoredDestination, task: StartedTask, { node, now }: BatchContext): void {
    const { ref, claimEpoch, taskId } = task;
    start.get(node, now, ref);
    destinations.tally(stored, "PENDING", "IN_FLIGHT");
    destinations.keepClaim(ref, claimEpoch, taskId, stored);
  }

  return {
    open,
    finish(claim, context) {
      const { request, stored, isCurrent, due, started, ahead } = claim.isOutdated
        ? open(claim.request, context)
        : claim;
      const count = Math.min(request.limit, request.aheadLimit) - due.length - started.length;
      const soon = ahead.slice(0, Math.max(0, count));
      for (const task of due) take(stored, task, context);
      for (const task of soon) take(stored, task, context);
      const next = nextDue.get(stored.id, laneNumber(request.lane)) as unknown;
      const nextDueAt = (next as readonly number[] | undefined)?.[0] ?? null;
      const tasks = [...due, ...started, ...soon];
      return { tasks, nextDueAts: [nextDueAt], row: isCurrent ? null : stored.row };
    },
  };
}

// New task claims: lets new tasks take the permits that a claim of the same batch has left. A task that
// is inserted already claimed needs no second statement and no entry in the index of waiting tasks.
// The result is the same as if all tasks were inserted first and then claimed.

/**
 * May the claims read the waiting tasks before the rest of the batch is written? Only if nothing
 * in the batch makes a task wait, except new tasks, and those are due, in the order of the batch.
 */
export function mayOpenEarly({
  now,
  creates,
  settles,
  cancels,
  retryNows,
  claims,
}: Batch): boolean {
  if (creates.length === 0 || claims.length === 0) return false;
  if (cancels.length + retryNows.length > 0) return false;
  if (!settles.every(({ status, onEnd }) => status !== "PENDING" && onEnd === undefined))
    return false;
  let latestAt = Number.NEGATIVE_INFINITY;
  for (const { task } of creates) {
    if (task.scheduledAt < latestAt || task.scheduledAt > now) return false;
    latestAt = task.scheduledAt;
  }
  return claims.length === 1 || new Set(claims.map(laneOf)).size === claims.length;
}

function laneOf({ tenantId, destination, lane }: ClaimRequest): string {
  return [lane, tenantId, destination].join("\n");
}

export function newTaskClaims(claims: readonly OpenClaim[]): NewTaskClaims {
  const usable = claims.filter(({ request, isCurrent }) => isCurrent && request.lane === "first");
  return new Map(usable.map((claim) => [claim.stored, claim]));
}

/** The claim that has a permit for the new task, if any. The caller adds the task to `started`. */
function claimFor(
  claims: NewTaskClaims,
  stored: StoredDestination,
  { scheduledAt }: NewTask,
  now: number,
): OpenClaim | undefined {
  const claim = claims.get(stored);
  if (claim === undefined || claim.isOutdated) return undefined;
  const { request, due, started } = claim;
  if (scheduledAt > now + Math.min(0, request.aheadMs)) return undefined;
  claim.isOutdated = scheduledAt < lastDueAt(due);
  return !claim.isOutdated && due.length + started.length < request.limit ? claim : undefined;
}

function lastDueAt(due: readonly StartedTask[]): number {
  return due.at(-1)?.nextAttemptAt ?? Number.NEGATIVE_INFINITY;
}
