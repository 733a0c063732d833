/**
 * Commit: carries out a batch by one call of `commit_batch`, which is one transaction and one round
 * trip, and reads the result of each item from the returned rows.
 */
import { messageOf } from "@redrive/core";
import {
  type Batch,
  type CancelRequest,
  type CancelResult,
  type ClaimRequest,
  type ClaimResult,
  type CommitResult,
  type CreateResult,
  freshClaim,
  type OnEnd,
  type RetryNowResult,
  type Settle,
  type SettleResult,
  type StartedTask,
} from "../../model/batch.ts";
import type { DestinationRow } from "../../model/destination-row.ts";
import { partitionOf } from "../../model/partition.ts";
import { KEY_RETENTION_MS } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import type { NewTask } from "../../model/task.ts";
import {
  byteaArray,
  type Cell,
  int8Array,
  NO_ATTEMPT_DAY,
  originalJson,
  type Param,
  type Rows,
  type Sql,
  sqlState,
  storedJson,
  textArray,
} from "./connection/sql.ts";
import { addAttemptDay, dayOf } from "./removal-table.ts";
import {
  type DestinationCells,
  destinationCells,
  destinationOf,
  laneName,
  laneNumber,
  logOf,
  PARTITIONS,
  payloadOf,
  startedOf,
  statusName,
  statusNumber,
} from "./schema/rows.ts";

const PARAMS = Array.from({ length: 13 }, (_, at) => `$${at + 1}`).join(", ");
const COMMIT = `SELECT kind, item, data, body FROM redrive_functions.commit_batch(${PARAMS})`;

export async function commit(sql: Sql, batch: Batch): Promise<CommitResult> {
  const { params, settles } = paramsOf(batch, PARTITIONS);
  const write = () =>
    sql.run(COMMIT, [batch.now, batch.expiresAt, KEY_RETENTION_MS, batch.nodeId, ...params]);
  try {
    return resultOf(batch, settles, await write());
  } catch (error) {
    if (sqlState(error) !== NO_ATTEMPT_DAY) throw error;
  }
  // The first commit of a day, if no node has prepared it.
  await addAttemptDay(sql, dayOf(batch.now));
  return resultOf(batch, settles, await write());
}

/** A value that cannot be written, such as a number that is not whole, would fail again. */
function paramsOf(batch: Batch, partitions: number): BatchParams {
  try {
    return batchParams(batch, partitions);
  } catch (error) {
    const text = messageOf(error);
    throw new StoreRefusedError(`an item cannot be written: ${text}`, { cause: error });
  }
}

/** Mutable while it is read. */
interface Results {
  readonly destinations: (DestinationRow | null)[];
  readonly creates: CreateResult[];
  readonly settles: SettleResult[];
  readonly cancels: CancelResult[];
  readonly retryNows: RetryNowResult[];
  readonly claims: ClaimResult[];
}

/** The server returns no row for a create or settle with the wanted result. */
function resultOf(batch: Batch, settles: readonly number[], rows: Rows): CommitResult {
  const results: Results = {
    destinations: batch.destinations.map(() => null),
    creates: batch.creates.map(({ task, claimVersion }) => ({
      kind: "created",
      started:
        claimVersion === null ? null : freshClaim(task, task.taskId, batch.nodeId, batch.now),
      row: null,
    })),
    settles: batch.settles.map(({ status }) => status),
    cancels: [],
    retryNows: [],
    claims: [],
  };
  const claimed = batch.claims.map((): StartedTask[] => []);
  for (const [kind, item, data, body] of rows) {
    const at = item as number;
    if (kind === null) {
      claimed[at]?.push(startedOf(data as string, body as Uint8Array | null, batch.nodeId));
    } else if (kind === "settles") {
      // The server counts settles from 1, in the order in which they were sent.
      results.settles[settles[at - 1] ?? 0] = settleResult(Number(data));
    } else readResult(results, claimed, kind as ResultKind, at, data as string);
  }
  return results;
}

function settleResult(status: number): SettleResult {
  return status < 0 ? "fenced" : (statusName(status) as SettleResult);
}

type ResultKind = Exclude<keyof Results, "settles"> | "refused";

/** Reads a row that holds the result of one item. */
function readResult(
  results: Results,
  claimed: readonly (readonly StartedTask[])[],
  kind: ResultKind,
  at: number,
  data: string,
): void {
  switch (kind) {
    case "destinations":
      results.destinations[at] = destinationOf(originalJson<DestinationCells>(data));
      break;
    case "creates":
      // The server counts creates from 1.
      results.creates[at - 1] = createResult(originalJson<NotCreated>(data));
      break;
    case "refused": {
      const row = destinationOf(originalJson<DestinationCells>(data));
      results.creates[at - 1] = { kind: "created", started: null, row };
      break;
    }
    case "cancels":
      results.cancels[at] = cancelResult(originalJson<readonly Cell[]>(data));
      break;
    case "retryNows":
      results.retryNows[at] = retryNowResult(originalJson<readonly Cell[]>(data));
      break;
    case "claims": {
      const [nextDueAts, row] = originalJson<Claimed>(data);
      const tasks = claimed[at] ?? [];
      results.claims[at] = { tasks, nextDueAts, row: row && destinationOf(row) };
      break;
    }
  }
}

type Claimed = readonly [readonly (number | null)[], DestinationCells | null];

type NotCreated =
  | readonly ["replayed" | "conflict" | "redriven", string]
  | readonly ["unknown-policy"];

function createResult(found: NotCreated): CreateResult {
  return found[0] === "unknown-policy" ? { kind: found[0] } : { kind: found[0], taskId: found[1] };
}

function cancelResult([kind, detail]: readonly Cell[]): CancelResult {
  if (kind === "requested") return { kind, cancelRequestedAt: Number(detail) };
  if (kind === "ended") return { kind, status: statusName(Number(detail)) };
  return { kind: kind as "cancelled" | "unknown" };
}

function retryNowResult([kind, detail, lane]: readonly Cell[]): RetryNowResult {
  if (kind === "not-pending") return { kind, status: statusName(Number(detail)) };
  if (kind === "unknown") return { kind };
  const destination = detail as string;
  return { kind: "rescheduled", destination, lane: laneName(Number(lane)) };
}

// Batch params: a batch as the parameters of `commit_batch`. New tasks and settlements are arrays, in the
// order of `schema/batch-cells.ts`; everything else is rare and in one JSON text.

type Cells = readonly unknown[];

interface BatchParams {
  /** After the instants, the retention of keys and the node. */
  readonly params: readonly Param[];
  /** The settles in the order of the parameters. */
  readonly settles: readonly number[];
}

function batchParams(batch: Batch, partitions: number): BatchParams {
  const tasks = new NewTasks(partitions);
  const isPlain = addCreates(tasks, batch);
  const order = inOrder(batch.settles);
  // The server counts items from 1.
  const places = new Map(order.map((index, place) => [index, place + 1]));
  const followers = addFollowers(tasks, batch.settles, (index) => places.get(index) ?? 0);
  const canceledFollowers = addFollowers(tasks, batch.cancels, (index) => index);
  const lists = {
    rowLocks: rowLocks(batch),
    ...namedTasks(batch),
    destinations: sortedRows(batch),
    policies: policyCells(batch),
    followers,
    cancels: sortedRefs(batch.cancels),
    canceledFollowers,
    retryNows: sortedRefs(batch.retryNows),
    claims: batch.claims.map(claimCells),
    documents: sortedDocuments(batch),
    isPlain: isPlain ? [1] : [],
    startsTasks: batch.creates.some(({ claimVersion }) => claimVersion !== null) ? [1] : [],
  };
  // The server tests whether a list is there, so empty ones are omitted.
  const used: Record<string, readonly unknown[]> = {};
  let isUsed = false;
  for (const [name, list] of Object.entries(lists)) {
    if (list.length === 0) continue;
    used[name] = list;
    isUsed = true;
  }
  const rest = isUsed ? storedJson(used) : null;
  const settles = settleArrays(
    order.map((index) => batch.settles[index] as Settle),
    batch.nodeId,
  );
  return { params: [rest, batch.creates.length, ...tasks.params(), ...settles], settles: order };
}

/** The order of task ids, so that two commits never wait for each other. */
function inOrder(settles: readonly Settle[]): readonly number[] {
  const order = settles.map((_, index) => index);
  return order.sort((one, other) => compareRefs(settles[one], settles[other]));
}

interface Named {
  readonly tenantId: string;
  readonly taskId: string;
}

function compareRefs(one: Named | undefined, other: Named | undefined): number {
  return (
    compareTexts(one?.tenantId ?? "", other?.tenantId ?? "") ||
    compareTexts(one?.taskId ?? "", other?.taskId ?? "")
  );
}

/** Each with its index in the batch. */
function sortedRefs(items: readonly Named[]): readonly Cells[] {
  const indexed = items.map((item, index) => ({ item, index }));
  return indexed
    .sort((one, other) => compareRefs(one.item, other.item))
    .map(({ item, index }) => [item.tenantId, item.taskId, index]);
}

/** Returns true if only a missing policy can refuse one of them: they have no key and no source. */
function addCreates(tasks: NewTasks, { creates }: Batch): boolean {
  const waves = new Waves();
  const hasSources = creates.some(({ task }) => task.redrivenFrom !== null);
  const isPlain = !hasSources && creates.every(({ fingerprint }) => fingerprint === null);
  for (const create of creates) {
    const { task, claimVersion } = create;
    if (isPlain) tasks.add(task, { claimVersion });
    else {
      const fingerprint = task.idempotencyKey === null ? null : create.fingerprint;
      const wave = waves.next(usedBy(task, fingerprint, hasSources));
      tasks.add(task, { claimVersion, wave, fingerprint });
    }
  }
  return isPlain && creates.length > 0;
}

/** Names of what a create uses: its key, its source, and, if there are sources, the task itself. */
function usedBy(
  { tenantId, taskId, idempotencyKey, redrivenFrom }: NewTask,
  fingerprint: string | null,
  hasSources: boolean,
): string[] {
  const used = fingerprint === null ? [] : [`key\n${tenantId}\n${idempotencyKey}`];
  if (hasSources) used.push(`task\n${tenantId}\n${taskId}`);
  if (redrivenFrom !== null) used.push(`task\n${tenantId}\n${redrivenFrom}`);
  return used;
}

/** The tasks that follow the ends of items, and for each the place of the item and its final status. */
function addFollowers(
  tasks: NewTasks,
  items: readonly (Settle | CancelRequest)[],
  placeOf: (index: number) => number,
): readonly Cells[] {
  const causes: Cells[] = [];
  for (const [index, { onEnd }] of items.entries()) {
    if (onEnd === undefined) continue;
    for (const [status, followers] of Object.entries(onEnd)) {
      for (const task of followers) {
        tasks.add(task);
        causes.push([placeOf(index), statusNumber(status as keyof OnEnd)]);
      }
    }
  }
  return causes;
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
function namedTasks({ settles, cancels, retryNows, creates }: Batch) {
  const requests = [...cancels, ...retryNows];
  const tasks = requests.length === 0 ? [] : [...settles, ...requests];
  const sources = creates.flatMap(({ task: { tenantId, redrivenFrom } }) =>
    redrivenFrom === null ? [] : [[tenantId, redrivenFrom]],
  );
  return { named: tasks.map(({ tenantId, taskId }) => [tenantId, taskId]), sources };
}

function claimCells(claim: ClaimRequest, at: number): Cells {
  const { tenantId, destination, lane, partitions, limit, aheadMs, aheadLimit, version } = claim;
  const place = [at, tenantId, destination, laneNumber(lane), partitions];
  return [...place, limit, aheadMs, Math.min(limit, aheadLimit), version];
}

// Settle arrays: the settlements of a batch as arrays, in the order of `schema/batch-cells.ts`.

/** Null: there are none. */
function settleArrays(settles: readonly Settle[], nodeId: string): readonly Param[] {
  if (settles.length === 0) return [null, null, null];
  const waves = new Waves();
  const numbers: (number | null)[] = [];
  const texts: (string | null)[] = [];
  const bodies: (Uint8Array | null)[] = [];
  for (const settle of settles) {
    const { attempt, lastError } = settle;
    numbers.push(
      settle.claimEpoch,
      statusNumber(settle.status),
      laneNumber(settle.lane),
      settle.nextAttemptAt,
      settle.lastDelayMs,
      settle.abandonedCount,
      attempt?.attemptNumber ?? null,
      attempt?.responseStatus ?? null,
      attempt === null && lastError === undefined ? 1 : 0,
      waves.next([`${settle.tenantId}\n${settle.taskId}`]),
    );
    texts.push(
      settle.tenantId,
      settle.taskId,
      settle.claimedBy === nodeId ? null : settle.claimedBy,
      settle.reason,
      attempt && logOf(attempt),
      attempt === null ? (lastError ?? null) : attempt.errorMessage,
    );
    bodies.push(attempt?.responseBody ?? null);
  }
  return [int8Array(numbers), textArray(texts), byteaArray(bodies)];
}

// New tasks: the new tasks of a batch as arrays, in the order of `schema/batch-cells.ts`. The destinations
// are numbered, so that the server looks up each one once.

interface Rest {
  readonly claimVersion?: number | null;
  readonly fingerprint?: string | null;
  readonly wave?: number;
}

export class NewTasks {
  readonly #partitions: number;
  /** Tenant and name of each destination. */
  readonly names: string[] = [];
  readonly #places = new Map<string, number>();
  readonly numbers: (number | null)[] = [];
  readonly texts: (string | null)[] = [];
  readonly bodies: (Uint8Array | null)[] = [];

  constructor(partitions: number) {
    this.#partitions = partitions;
  }

  add(task: NewTask, { claimVersion = null, fingerprint = null, wave = 0 }: Rest = {}): void {
    const labels = Object.entries(task.labels);
    this.numbers.push(
      this.#placeOf(task.tenantId, task.destination),
      task.policyVersion,
      task.createdAt,
      task.scheduledAt,
      claimVersion,
      partitionOf(task.taskId, this.#partitions),
      wave,
    );
    this.texts.push(
      task.taskId,
      task.idempotencyKey,
      fingerprint,
      task.policyId,
      task.redrivenFrom,
      labels.length === 0 ? null : storedJson(labels),
      payloadOf(task),
    );
    this.bodies.push(task.body);
  }

  /** From 1, as in an array of the server. */
  #placeOf(tenantId: string, destination: string): number {
    const key = `${tenantId}\n${destination}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    const place = this.names.push(tenantId, destination) / 2;
    this.#places.set(key, place);
    return place;
  }

  /** Null: there are none. */
  params(): readonly Param[] {
    if (this.bodies.length === 0) return [null, null, null, null];
    return [
      textArray(this.names),
      int8Array(this.numbers),
      textArray(this.texts),
      byteaArray(this.bodies),
    ];
  }
}

// Waves: numbers the items of a list so that items with a common key have different numbers, in
// their order. The server carries out one wave at a time, and the items of a wave by one statement.

export class Waves {
  readonly #last = new Map<string, number>();

  /** The wave of the next item. */
  next(keys: readonly string[]): number {
    const waves = keys.map((key) => (this.#last.get(key) ?? -1) + 1);
    const wave = Math.max(0, ...waves);
    for (const key of keys) this.#last.set(key, wave);
    return wave;
  }
}

// Row locks: the destinations whose rows a batch writes, or claims under. A claim holds the lock shared
// until it is committed, so a pause that was acknowledged is not followed by a claim that began before.

/** The name, and 1 if the row is written. In one order, so that two commits never wait for each other. */
function rowLocks({ destinations, creates, claims }: Batch): readonly (readonly [string, 0 | 1])[] {
  const locks = new Map<string, 0 | 1>();
  for (const { tenantId, destination } of claims) locks.set(`${tenantId}\n${destination}`, 0);
  for (const { task, claimVersion } of creates) {
    if (claimVersion !== null) locks.set(`${task.tenantId}\n${task.destination}`, 0);
  }
  for (const { row } of destinations) locks.set(`${row.tenantId}\n${row.name}`, 1);
  return [...locks].sort(([one], [other]) => compareTexts(one, other));
}

function compareTexts(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
