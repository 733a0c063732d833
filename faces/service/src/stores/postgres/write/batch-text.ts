/**
 * Batch text: a batch as the parameters of `commit_batch`: one JSON text, in which an item is a list
 * of cells, and the bytes of all bodies in one piece. Lists are faster to read than objects.
 */
import type { Batch, CancelRequest, ClaimRequest, OnEnd, Settle } from "../../../model/batch.ts";
import { partitionOf } from "../../../model/partition.ts";
import type { NewTask } from "../../../model/task.ts";
import { storedJson } from "../connection/stored-text.ts";
import { logOf } from "../rows/attempt-rows.ts";
import { laneNumber, statusNumber } from "../rows/codes.ts";
import { destinationCells } from "../rows/destination-rows.ts";
import { payloadOf } from "../rows/task-rows.ts";
import { ByteParts } from "./byte-parts.ts";
import { Places } from "./places.ts";
import { compareTexts, rowLocks } from "./row-locks.ts";
import { Waves } from "./waves.ts";

export interface BatchText {
  readonly json: string;
  readonly bytes: Uint8Array;
}

type Cells = readonly unknown[];

/** What the new tasks of a batch share. */
interface TaskContext {
  readonly partitions: number;
  readonly bytes: ByteParts;
  readonly places: Places;
}

export function batchText(batch: Batch, partitions: number): BatchText {
  const bytes = new ByteParts();
  const context = { partitions, bytes, places: new Places() };
  const lists = {
    rowLocks: rowLocks(batch),
    ...lockedItems(batch),
    destinations: sortedRows(batch),
    creates: createCells(batch, context),
    policies: policyCells(batch),
    settles: settleCells(batch.settles, bytes),
    followers: followerCells(batch.settles, context),
    cancels: batch.cancels.map(({ tenantId, taskId }, at) => [tenantId, taskId, at]),
    canceledFollowers: followerCells(batch.cancels, context),
    retryNows: batch.retryNows.map(({ tenantId, taskId }, at) => [tenantId, taskId, at]),
    claims: batch.claims.map(claimCells),
    hints: batch.hints.map((hint) => [
      hint.partition,
      hint.tenantId,
      hint.destination,
      laneNumber(hint.lane),
      hint.dueAt,
    ]),
    documents: sortedDocuments(batch),
    names: context.places.names,
  };
  // The server tests whether a list is there, so empty ones are omitted.
  const used = Object.entries(lists).filter(([, list]) => list !== undefined && list.length > 0);
  const isPlain = batch.creates.every(isPlainCreate);
  return { json: storedJson({ ...Object.fromEntries(used), isPlain }), bytes: bytes.joined() };
}

/** Only a missing policy can refuse it: it has no key and no source. */
function isPlainCreate({ task, fingerprint }: Batch["creates"][number]): boolean {
  return fingerprint === null && task.redrivenFrom === null;
}

/** Each policy of the new tasks once. Version 0 always exists: it is a preset. */
function policyCells({ creates }: Batch): readonly Cells[] {
  const cells = new Map<string, Cells>();
  for (const { task } of creates) {
    const { tenantId, policyId, policyVersion } = task;
    if (policyVersion === 0) continue;
    cells.set(`${tenantId}\n${policyId}\n${policyVersion}`, [tenantId, policyId, policyVersion]);
  }
  return [...cells.values()];
}

/** In the order of names, so that two commits never wait for each other. */
function sortedRows({ destinations }: Batch): readonly Cells[] {
  const cells = destinations.map(({ row }, at) => [...destinationCells(row), at]);
  return cells.sort((one, other) => compareTexts(nameOf(one), nameOf(other)));
}

function sortedDocuments({ documents }: Batch): readonly Cells[] {
  const cells = documents.map(({ kind, tenantId, id, text }) => [kind, tenantId, id, text]);
  const keyOf = ([kind, tenantId, id]: Cells) => `${kind}\n${tenantId}\n${id}`;
  return cells.sort((one, other) => compareTexts(keyOf(one), keyOf(other)));
}

const nameOf = ([tenantId, name]: Cells) => `${tenantId}\n${name}`;

/** The tasks that the server locks first. A batch that only settles needs no lock in advance. */
function lockedItems({ settles, cancels, retryNows, creates }: Batch) {
  const named = [...cancels, ...retryNows].map(({ tenantId, taskId }) => [tenantId, taskId]);
  const sources = creates.flatMap(({ task: { tenantId, redrivenFrom } }) =>
    redrivenFrom === null ? [] : [[tenantId, redrivenFrom]],
  );
  const locked = named.length + sources.length === 0 ? [] : settles.map(({ ref }) => ref);
  return { locked, named, sources };
}

function createCells({ creates }: Batch, context: TaskContext): readonly Cells[] {
  const waves = new Waves();
  const hasSources = creates.some(({ task }) => task.redrivenFrom !== null);
  return creates.map(({ task, fingerprint, claimVersion }, at) => {
    const { tenantId, taskId, idempotencyKey, redrivenFrom } = task;
    const hasKey = fingerprint !== null && idempotencyKey !== null;
    const wave = waves.next([
      ...(hasKey ? [`key\n${tenantId}\n${idempotencyKey}`] : []),
      ...(hasSources ? [`task\n${tenantId}\n${taskId}`] : []),
      ...(redrivenFrom === null ? [] : [`task\n${tenantId}\n${redrivenFrom}`]),
    ]);
    const rest = { fingerprint: hasKey ? fingerprint : null, claimVersion };
    return taskCells(context, at, wave, task, rest);
  });
}

/** In the order of `new_task`. */
function taskCells(
  { partitions, bytes, places }: TaskContext,
  at: number,
  wave: number,
  task: NewTask,
  rest: { fingerprint?: string | null; claimVersion?: number | null; causeStatus?: number },
): Cells {
  const labels = Object.entries(task.labels);
  const { start, length } = bytes.add(task.body);
  return [
    at,
    wave,
    task.tenantId,
    task.taskId,
    places.of(task.tenantId, task.destination),
    task.idempotencyKey,
    rest.fingerprint ?? null,
    task.policyId,
    task.policyVersion,
    task.createdAt,
    task.scheduledAt,
    task.redrivenFrom,
    rest.claimVersion ?? null,
    partitionOf(task.taskId, partitions),
    payloadOf(task),
    start,
    length,
    labels.length === 0 ? null : labels,
    rest.causeStatus ?? null,
  ];
}

/** The tasks that follow the ends of items, for each possible status. */
function followerCells(
  items: readonly (Settle | CancelRequest)[],
  context: TaskContext,
): readonly Cells[] {
  return items.flatMap(({ onEnd }, at) =>
    Object.entries(onEnd ?? {}).flatMap(([status, tasks]) => {
      const causeStatus = statusNumber(status as keyof OnEnd);
      return tasks.map((task) => taskCells(context, at, 0, task, { causeStatus }));
    }),
  );
}

/** The position of the ref in a settlement. */
const REF_AT = 2;

/** In the order of `settlement`, and of refs, so that two commits never wait for each other. */
function settleCells(settles: readonly Settle[], bytes: ByteParts): readonly Cells[] {
  const waves = new Waves();
  const cells = settles.map((settle, at) => {
    const { attempt, lastError } = settle;
    const { start, length } = bytes.add(attempt?.responseBody ?? null);
    return [
      at,
      waves.next([String(settle.ref)]),
      settle.ref,
      settle.tenantId,
      settle.taskId,
      settle.claimEpoch,
      statusNumber(settle.status),
      settle.reason,
      laneNumber(settle.lane),
      settle.nextAttemptAt,
      settle.lastDelayMs,
      settle.abandonedCount,
      attempt?.attemptNumber ?? null,
      attempt && logOf(attempt),
      start,
      length,
      attempt?.responseStatus ?? null,
      attempt !== null || lastError !== undefined,
      attempt === null ? (lastError ?? null) : attempt.errorMessage,
    ];
  });
  return cells.sort((one, other) => Number(one[REF_AT]) - Number(other[REF_AT]));
}

function claimCells(claim: ClaimRequest, at: number): Cells {
  const { tenantId, destination, lane, partitions, limit, aheadMs, aheadLimit, version } = claim;
  const place = [at, tenantId, destination, laneNumber(lane), partitions];
  return [...place, limit, aheadMs, Math.min(limit, aheadLimit), version];
}
