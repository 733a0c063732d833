/**
 * Apply: applies each item of a batch to the rows of the memory store. Items are applied one by
 * one, and each is applied completely or not at all; the fault injection in tests relies on that.
 */
import {
  type CancelRequest,
  type CancelResult,
  type ClaimRequest,
  type ClaimResult,
  type Create,
  type CreateResult,
  type DestinationWrite,
  type OnEnd,
  type RetryNowResult,
  type Settle,
  type SettleResult,
  type StartedTask,
  startedTask,
  type TaskRef,
} from "../../model/batch.ts";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import { KEY_RETENTION_MS, PRESET_VERSION } from "../../model/store.ts";
import { isEnded, type NewTask } from "../../model/task.ts";
import { copyOf, freshState, keyOf, type Row, type Tables, type Writer } from "./rows.ts";

export function applyDestination(
  tables: Tables,
  { row }: DestinationWrite,
  { refused }: Writer,
): DestinationRow | null {
  const key = keyOf(row.tenantId, row.name);
  const stored =
    tables.destinations.get(key) ?? blankDestination(row.tenantId, row.name, tables.lastRemoved);
  if (stored.version !== row.version - 1) {
    refused.add(key);
    return stored;
  }
  tables.destinations.set(key, row);
  return null;
}

/** The row that forbids a claim made under `version`; null if the version is current. */
function otherRow(tables: Tables, claim: ClaimTarget, { refused }: Writer): DestinationRow | null {
  const key = keyOf(claim.tenantId, claim.destination);
  const stored = tables.destinations.get(key);
  if (stored === undefined) return null;
  return stored.version === claim.version && !refused.has(key) ? null : stored;
}

interface ClaimTarget {
  readonly tenantId: string;
  readonly destination: string;
  readonly version: number;
}

export function applyCreate(tables: Tables, create: Create, writer: Writer): CreateResult {
  const { task, fingerprint, claimVersion } = create;
  const { tenantId, taskId, idempotencyKey } = task;
  const known = knownTask(tables, create);
  if (known !== null) return known;
  if (!hasPolicy(tables, task)) return { kind: "unknown-policy" };
  if (fingerprint !== null && idempotencyKey !== null) {
    const entry = { taskId, fingerprint, expiresAt: Number.POSITIVE_INFINITY };
    tables.keys.set(keyOf(tenantId, idempotencyKey), entry);
  }
  const source = task.redrivenFrom && tables.rows.find(tenantId, task.redrivenFrom);
  if (source) tables.rows.move(source, { ...source.state, redrivenTo: taskId });
  return insert(tables, task, claimVersion, writer);
}

/** The task that the key or the redriven source belongs to already; null: it is free. */
function knownTask(tables: Tables, { task, fingerprint }: Create): CreateResult | null {
  const { tenantId, idempotencyKey, redrivenFrom } = task;
  const hasKey = fingerprint !== null && idempotencyKey !== null;
  const known = hasKey ? tables.keys.get(keyOf(tenantId, idempotencyKey)) : undefined;
  if (known !== undefined) {
    const kind = known.fingerprint === fingerprint ? "replayed" : "conflict";
    return { kind, taskId: known.taskId };
  }
  const source = redrivenFrom === null ? undefined : tables.rows.find(tenantId, redrivenFrom);
  const redrivenTo = source?.state.redrivenTo ?? null;
  return redrivenTo === null ? null : { kind: "redriven", taskId: redrivenTo };
}

function hasPolicy({ policies }: Tables, { tenantId, policyId, policyVersion }: NewTask): boolean {
  if (policyVersion === PRESET_VERSION) return true;
  const policy = policies.get(keyOf(tenantId, policyId, String(policyVersion)));
  return policy !== undefined && policy.removedAt === null;
}

function insert(
  tables: Tables,
  task: NewTask,
  claimVersion: number | null,
  writer: Writer,
): CreateResult {
  const { tenantId, destination } = task;
  const version = claimVersion ?? 0;
  const other =
    claimVersion === null ? null : otherRow(tables, { tenantId, destination, version }, writer);
  const row = tables.rows.add(task, freshState(task));
  const claimed = claimVersion !== null && other === null;
  return { kind: "created", started: claimed ? start(tables, row, writer) : null, row: other };
}

function start(tables: Tables, row: Row, { now, nodeId }: Writer): StartedTask {
  const started = copyOf(row.state);
  started.status = "IN_FLIGHT";
  started.attemptNumber++;
  started.claimEpoch++;
  started.claimedBy = nodeId;
  started.claimedAt = now;
  tables.rows.move(row, started);
  return startedTaskOf(row);
}

export function startedTaskOf({ ref, task, state }: Row): StartedTask {
  return startedTask(task, ref, state);
}

export function applySettle(tables: Tables, settle: Settle, { now }: Writer): SettleResult {
  const row = tables.rows.at(Number(settle.ref));
  if (row === undefined || !isOwner(row, settle)) return "fenced";
  const { attempt } = settle;
  if (attempt !== null) row.attempts.push(attempt);
  const status = cancelWins(row, settle) ? "CANCELLED" : settle.status;
  const ended = status !== "PENDING";
  const settled = copyOf(row.state);
  settled.status = status;
  settled.reason = status === settle.status ? settle.reason : "aborted";
  settled.lane = settle.lane;
  if (attempt === null) settled.attemptNumber--;
  if (!ended) settled.nextAttemptAt = settle.nextAttemptAt;
  settled.claimEpoch = settle.claimEpoch + 1;
  settled.claimedBy = null;
  settled.claimedAt = null;
  settled.lastDelayMs = settle.lastDelayMs;
  settled.abandonedCount = settle.abandonedCount;
  if (attempt !== null) settled.lastStatus = attempt.responseStatus;
  settled.lastError =
    attempt === null ? (settle.lastError ?? settled.lastError) : attempt.errorMessage;
  settled.finishedAt = ended ? now : null;
  tables.rows.move(row, settled);
  if (ended) end(tables, row, settle.onEnd, now);
  return status;
}

/** The key stays for its retention time, and the follow-up tasks are created. */
function end(tables: Tables, row: Row, onEnd: OnEnd | undefined, now: number): void {
  endKey(tables, row, now);
  const followUps = onEnd?.[row.state.status as keyof OnEnd] ?? [];
  for (const next of followUps) tables.rows.add(next, freshState(next));
}

function isOwner({ task, state }: Row, { taskId, claimEpoch, claimedBy }: Settle): boolean {
  const isClaim = state.claimEpoch === claimEpoch && state.claimedBy === claimedBy;
  return state.status === "IN_FLIGHT" && isClaim && task.taskId === taskId;
}

function cancelWins({ state }: Row, { status }: Settle): boolean {
  return state.cancelRequestedAt !== null && status !== "SUCCEEDED";
}

function endKey(tables: Tables, { task }: Row, now: number): void {
  if (task.idempotencyKey === null) return;
  const entry = tables.keys.get(keyOf(task.tenantId, task.idempotencyKey));
  if (entry?.taskId === task.taskId) entry.expiresAt = now + KEY_RETENTION_MS;
}

export function applyCancel(tables: Tables, ref: CancelRequest, { now }: Writer): CancelResult {
  const row = tables.rows.find(ref.tenantId, ref.taskId);
  if (row === undefined) return { kind: "unknown" };
  const { status, cancelRequestedAt } = row.state;
  if (status === "CANCELLED") return { kind: "cancelled" };
  if (isEnded(status)) return { kind: "ended", status };
  if (status === "PENDING") {
    tables.rows.move(row, {
      ...row.state,
      status: "CANCELLED",
      reason: "aborted",
      finishedAt: now,
    });
    end(tables, row, ref.onEnd, now);
    return { kind: "cancelled" };
  }
  const requestedAt = cancelRequestedAt ?? now;
  tables.rows.move(row, { ...row.state, cancelRequestedAt: requestedAt });
  return { kind: "requested", cancelRequestedAt: requestedAt };
}

export function applyRetryNow(tables: Tables, ref: TaskRef, { now }: Writer): RetryNowResult {
  const row = tables.rows.find(ref.tenantId, ref.taskId);
  if (row === undefined) return { kind: "unknown" };
  const { status, nextAttemptAt, lane } = row.state;
  if (status !== "PENDING") return { kind: "not-pending", status };
  if (nextAttemptAt > now) tables.rows.move(row, { ...row.state, nextAttemptAt: now });
  return { kind: "rescheduled", destination: row.task.destination, lane };
}

export function applyClaim(tables: Tables, request: ClaimRequest, writer: Writer): ClaimResult {
  const { rows } = tables;
  const row = otherRow(tables, request, writer);
  const tasks: StartedTask[] = [];
  const queues = rows.place(request.tenantId, request.destination)?.queues[request.lane];
  const nextDueAts = request.partitions.map((partition) => {
    const queue = queues?.[partition];
    let head = rows.head(queue);
    while (row === null && head && isClaimed(request, writer.now, head, tasks.length)) {
      tasks.push(start(tables, head, writer));
      head = rows.head(queue);
    }
    return head?.state.nextAttemptAt ?? null;
  });
  return { tasks, nextDueAts, row };
}

/** Whether the row is claimed, if `before` rows were claimed before it. */
function isClaimed(request: ClaimRequest, now: number, { state }: Row, before: number): boolean {
  const { limit, aheadMs, aheadLimit } = request;
  if (state.nextAttemptAt > now + aheadMs) return false;
  return before < (state.nextAttemptAt > now ? Math.min(limit, aheadLimit) : limit);
}
