/**
 * Writer: writes a batch in one transaction on the main thread (a worker thread was slower). Each
 * kind of item has its own file.
 */
import {
  type Batch,
  type CancelRequest,
  type CancelResult,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type Create,
  type CreateResult,
  freshClaim,
  type RetryNowResult,
  type Settle,
  type SettleResult,
  type StartedTask,
  type StoreRef,
  type TaskRef,
} from "../../model/batch.ts";
import type { UnversionedDocument } from "../../model/document-table.ts";
import type { AttemptLog, NewTask } from "../../model/task.ts";
import type { DestinationTable, StoredDestination } from "./destination-table.ts";
import type { LogSync } from "./file/checkpointer.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import {
  attemptCells,
  CANCELLED,
  type Cell,
  headersText,
  IN_FLIGHT,
  INSERT_ATTEMPT,
  INSERT_PAYLOAD,
  INSERT_PLAIN_PAYLOAD,
  INSERT_PLAIN_SUCCESS,
  isPlain,
  isPlainSuccess,
  laneName,
  laneNumber,
  PENDING,
  payloadCells,
  responseHeadersText,
  STARTED_COLUMNS,
  SUCCEEDED,
  startedOf,
  statusName,
  statusNumber,
} from "./rows.ts";

export function batchWriter(
  sql: Sql,
  destinations: DestinationTable,
  writeDocument: (document: UnversionedDocument) => void,
  hasPolicy: HasPolicy,
): (batch: Batch) => CommitResult {
  const create = createWriter(sql, destinations, hasPolicy);
  const { settle, cancel, retryNow } = endWriter(sql, destinations, (tasks, context) => {
    if (tasks === undefined) return;
    for (const task of tasks) create({ task, fingerprint: null, claimVersion: null }, context);
  });
  const claimer = claimWriter(sql, destinations);

  return (batch) => {
    const context: BatchContext = {
      now: batch.now,
      nodeId: batch.nodeId,
      node: destinations.nodeNumber(batch.nodeId),
      refused: new Set(),
      newTaskClaims: undefined,
    };
    const rows = batch.destinations.map((item) => destinations.write(item, context.refused));
    const open = mayOpenEarly(batch) ? openClaims(claimer, batch, context) : undefined;
    const creates = batch.creates.map((item) => create(item, context));
    const settles = settle(batch.settles, context);
    const cancels = batch.cancels.map((item) => cancel(item, context));
    const retryNows = batch.retryNows.map((item) => retryNow(item, context.now));
    const claims = open
      ? open.map((one) => claimer.finish(one, context))
      : batch.claims.map((item) => claimer.finish(claimer.open(item, context), context));
    for (const document of batch.documents) writeDocument(document);
    destinations.flush();
    return { destinations: rows, creates, settles, cancels, retryNows, claims };
  };
}

function openClaims(claimer: ClaimWriter, batch: Batch, context: BatchContext): OpenClaim[] {
  const open = batch.claims.map((item) => claimer.open(item, context));
  context.newTaskClaims = newTaskClaims(open);
  return open;
}

// Commit: writes a batch in one transaction and returns its result once the transaction is durable.
// SQLite syncs a small batch itself. A larger one is synced on a thread, so that the event loop of a
// busy node does not wait for the disk.

/**
 * A node with so few items per commit is not busy. Its result is earlier without two switches between
 * threads, and the event loop waits for one fsync.
 */
const MAX_SMALL_ITEMS = 32;

/**
 * Between the commit and its sync, readers may see what a power cut would undo. Nobody was told the
 * result yet, and a commit that builds on it is synced later.
 */
export function syncedCommit(
  sql: Sql,
  write: (batch: Batch) => CommitResult,
  undo: () => void,
  logSync: LogSync | undefined,
): (batch: Batch) => Promise<CommitResult> {
  return async (batch) => {
    if (logSync === undefined || isSmall(batch)) {
      return sql.transaction(() => write(batch), undo);
    }
    const { result, recordSync } = sql.laterSyncedTransaction(() => write(batch), undo);
    try {
      await logSync.sync();
    } catch (error) {
      throw sql.fail(error);
    }
    recordSync();
    return result;
  };
}

function isSmall({ creates, settles, cancels, retryNows, claims, documents }: Batch): boolean {
  let items = creates.length + settles.length + cancels.length + retryNows.length;
  for (const { limit } of claims) items += limit;
  return items + documents.length <= MAX_SMALL_ITEMS;
}

// Batch context: the node, the time, the rejected destinations and the claims of the batch.

/** A claim that knows its waiting tasks and has not written anything. */
export interface OpenClaim {
  readonly request: ClaimRequest;
  readonly stored: StoredDestination;
  readonly isCurrent: boolean;
  /** Waiting tasks, the earliest first: those that are due, and those that are due soon. */
  readonly due: readonly StartedTask[];
  readonly ahead: readonly StartedTask[];
  /** New tasks that were inserted with a permit of this claim. */
  readonly started: StartedTask[];
  /** A new task was due before a waiting one: the claim reads both in order once it is inserted. */
  isOutdated: boolean;
}

/** The open claims that new tasks may use, by destination. */
export type NewTaskClaims = Map<StoredDestination, OpenClaim>;

/** The node that writes, and the time. */
export interface BatchContext {
  readonly now: number;
  readonly nodeId: string;
  /** The number of the node. */
  readonly node: number;
  /** Destinations whose write in this batch was rejected. */
  readonly refused: Set<StoredDestination>;
  /** Claims of this batch with permits for new tasks. */
  newTaskClaims: NewTaskClaims | undefined;
}

/**
 * True if a claim made under `version` is current. A destination without a row (version 0) allows
 * any claim.
 */
export function mayClaim(
  { refused }: BatchContext,
  stored: StoredDestination,
  version: number,
): boolean {
  const { row } = stored;
  return row.version === 0 || (row.version === version && !refused.has(stored));
}

// Create writer: inserts new tasks and their idempotency keys. A task that is due at once may be
// inserted already claimed, which saves a second write.

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

// Settle writer: ends claims and waits: settle, cancel and retry now. A settle with an old epoch
// finds no row and changes nothing.

interface EndWriter {
  /** The results have the order of the items. */
  settle(items: readonly Settle[], context: BatchContext): SettleResult[];
  cancel(item: CancelRequest, context: BatchContext): CancelResult;
  retryNow(item: TaskRef, now: number): RetryNowResult;
}

/** Creates the tasks that follow the end of another. */
type Follow = (tasks: readonly NewTask[] | undefined, context: BatchContext) => void;

export function endWriter(sql: Sql, destinations: DestinationTable, follow: Follow): EndWriter {
  const insertAttempt = attemptInserter(sql);
  const succeed = successStatements(sql, destinations, insertAttempt);
  const settleFound = settleStatements(sql, destinations, insertAttempt);
  return {
    settle(items, context) {
      const known = succeed(items, context.now);
      return items.map((item, index) => {
        const status = known[index] ? "SUCCEEDED" : settleFound(item, context.now);
        if (status !== "fenced" && status !== "PENDING") follow(item.onEnd?.[status], context);
        return status;
      });
    },
    ...cancelStatements(sql, destinations, follow),
  };
}

/** SQLite may give the row number of a deleted task to a new one, so the id is compared too. */
const OF_CLAIM = "ref = ? AND claim_epoch = ? AND task_id = ? AND status = 1";
const RELEASED = "claim_epoch = claim_epoch + 1, claimed_by = NULL, claimed_at = NULL";

type InsertAttempt = (ref: StoreRef, log: AttemptLog) => void;

function attemptInserter(sql: Sql): InsertAttempt {
  const insert = sql.prepare(INSERT_ATTEMPT);
  const insertPlain = sql.prepare(INSERT_PLAIN_SUCCESS);
  return (ref, log) => {
    if (isPlainSuccess(log)) {
      insertPlain.get(
        ref,
        log.attemptNumber,
        log.startedAt,
        log.durationMs,
        log.responseStatus,
        responseHeadersText(log.responseHeaders),
        log.phases?.firstByteMs ?? null,
      );
    } else insert.get(...attemptCells(Number(ref), log));
  };
}

function settleStatements(
  sql: Sql,
  destinations: DestinationTable,
  insertAttempt: InsertAttempt,
): (item: Settle, now: number) => SettleResult {
  const find = sql.prepare(`SELECT destination_id, cancel_requested_at, last_status, last_error
    FROM tasks WHERE ${OF_CLAIM}`);
  const update = (finished: string) =>
    sql.prepare(`UPDATE tasks SET status = ?, reason = ?, lane = ?,
    next_attempt_at = ifnull(?, next_attempt_at), attempt_number = attempt_number - ?,
    ${RELEASED}, last_delay_ms = ?,
    abandoned_count = ?, ${finished} last_status = ?, last_error = ? WHERE ref = ?`);
  const finish = update("finished_at = ?,");
  // Naming `finished_at` would rewrite the entry in `tasks_open`, which does not change.
  const retry = update("");

  return (item, now) => {
    const { ref, claimEpoch, taskId, attempt } = item;
    const found = find.get(ref, claimEpoch, taskId) as unknown as readonly Cell[] | undefined;
    if (found === undefined) return "fenced";
    const [destinationId, cancelRequestedAt, lastStatus = null, lastError = null] = found;
    const status = endOf(item, cancelRequestedAt !== null);
    const last = attempt
      ? [attempt.responseStatus, attempt.errorMessage]
      : [lastStatus, item.lastError ?? lastError];
    const cells = settledCells(item, status);
    if (status === "PENDING") retry.get(...cells, ...last, item.ref);
    else finish.get(...cells, now, ...last, item.ref);
    destinations.tally(destinations.byId(destinationId as number), "IN_FLIGHT", status);
    if (attempt !== null) insertAttempt(ref, attempt);
    return status;
  };
}

/** Settles the successes that it can settle; says at the index of each item whether it did. */
type Succeed = (items: readonly Settle[], now: number) => readonly boolean[];

/**
 * Settles a success of a claim of this process in one statement, without reading the row first: a
 * success wins over a requested cancel, and the destination of the claim is known. The number of rows
 * that each statement changed costs more than the statement, so they are counted together.
 */
function successStatements(
  sql: Sql,
  destinations: DestinationTable,
  insertAttempt: InsertAttempt,
): Succeed {
  const ended = `UPDATE tasks SET status = ${SUCCEEDED}, ${RELEASED}, lane = ?, finished_at = ?,
    last_status = ?`;
  const update = sql.prepare(`${ended}, last_error = ?, reason = ?, last_delay_ms = ?,
    abandoned_count = ? WHERE ${OF_CLAIM}`);
  const updateFirst = sql.prepare(`${ended}, last_error = NULL, reason = NULL, last_delay_ms = 0,
    abandoned_count = 0 WHERE ${OF_CLAIM}`);
  const getChanges = sql.prepare("SELECT total_changes()");
  const countChanges = () => (getChanges.get() as unknown as readonly [number])[0];

  function succeed(item: Settle, { responseStatus, errorMessage }: AttemptLog, now: number): void {
    const { ref, claimEpoch, taskId, reason, lastDelayMs, abandonedCount } = item;
    const lane = laneNumber(item.lane);
    const isUsual = reason === null && errorMessage === null;
    if (isUsual && lastDelayMs === 0 && abandonedCount === 0) {
      updateFirst.get(lane, now, responseStatus, ref, claimEpoch, taskId);
      return;
    }
    const rest = [errorMessage, reason, lastDelayMs, abandonedCount] as const;
    update.get(lane, now, responseStatus, ...rest, ref, claimEpoch, taskId);
  }

  return (items, now) => {
    if (items.length === 0) return [];
    const before = countChanges();
    let settled = 0;
    const known = items.map((item) => {
      const { attempt } = item;
      const destination = destinations.takeClaim(item);
      if (destination === undefined || item.status !== "SUCCEEDED" || attempt === null)
        return false;
      succeed(item, attempt, now);
      insertAttempt(item.ref, attempt);
      destinations.tally(destination, "IN_FLIGHT", "SUCCEEDED");
      settled++;
      return true;
    });
    // Each changes one row and inserts one. The rollback forgets all claims, so that the next settle
    // reads its row.
    if (countChanges() - before !== 2 * settled) {
      throw new Error("a claim of this process has another state in the store");
    }
    return known;
  };
}

/** A requested cancel wins over every result except success. */
function endOf({ status }: Settle, isCancelled: boolean): Settle["status"] {
  return isCancelled && status !== "SUCCEEDED" ? "CANCELLED" : status;
}

/** The columns of `update` before `finished_at`. */
function settledCells(item: Settle, status: Settle["status"]): Cell[] {
  const ended = status !== "PENDING";
  return [
    statusNumber(status),
    status === item.status ? item.reason : "aborted",
    laneNumber(item.lane),
    ended ? null : item.nextAttemptAt,
    item.attempt === null ? 1 : 0,
    item.lastDelayMs,
    item.abandonedCount,
  ];
}

function cancelStatements(
  sql: Sql,
  destinations: DestinationTable,
  follow: Follow,
): Pick<EndWriter, "cancel" | "retryNow"> {
  const find = sql.prepare(`SELECT ref, status, destination_id, lane, cancel_requested_at FROM tasks
    WHERE tenant_id = ? AND task_id = ?`);
  const requestCancel = sql.prepare("UPDATE tasks SET cancel_requested_at = ? WHERE ref = ?");
  const cancelNow = sql.prepare(
    "UPDATE tasks SET status = 4, reason = 'aborted', finished_at = ? WHERE ref = ?",
  );
  const retryAt = sql.prepare(
    "UPDATE tasks SET next_attempt_at = min(next_attempt_at, ?) WHERE ref = ?",
  );
  const findCells = ({ tenantId, taskId }: TaskRef) =>
    find.get(tenantId, taskId) as unknown as readonly Cell[] | undefined;
  const storedById = (id: Cell | undefined) => destinations.byId(id as number);

  return {
    cancel(item, context) {
      const { now } = context;
      const found = findCells(item);
      if (found === undefined) return { kind: "unknown" };
      const [ref = 0, status, destinationId, , requestedAt] = found;
      if (status === CANCELLED) return { kind: "cancelled" };
      if ((status as number) >= SUCCEEDED) {
        return { kind: "ended", status: statusName(status as number) };
      }
      if (status === IN_FLIGHT) {
        const cancelRequestedAt = (requestedAt as number | null) ?? now;
        requestCancel.run(cancelRequestedAt, ref);
        return { kind: "requested", cancelRequestedAt };
      }
      cancelNow.run(now, ref);
      destinations.tally(storedById(destinationId), "PENDING", "CANCELLED");
      follow(item.onEnd?.CANCELLED, context);
      return { kind: "cancelled" };
    },
    retryNow(item, now) {
      const found = findCells(item);
      if (found === undefined) return { kind: "unknown" };
      const [ref = 0, status, destinationId, lane] = found;
      if (status !== PENDING) return { kind: "not-pending", status: statusName(status as number) };
      retryAt.run(now, ref);
      const { name } = storedById(destinationId).row;
      return { kind: "rescheduled", destination: name, lane: laneName(lane as number) };
    },
  };
}
