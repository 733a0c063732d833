/**
 * Batch params: a batch as the parameters of `commit_batch`. New tasks and settlements are arrays, in the
 * order of `schema/batch-cells.ts`; everything else is rare and in one JSON text.
 */
import type { Batch, CancelRequest, ClaimRequest, OnEnd, Settle } from "../../../model/batch.ts";
import type { NewTask } from "../../../model/task.ts";
import type { Param } from "../connection/cells.ts";
import { storedJson } from "../connection/stored-text.ts";
import { laneNumber, statusNumber } from "../rows/codes.ts";
import { destinationCells } from "../rows/destination-rows.ts";
import { NewTasks } from "./new-tasks.ts";
import { compareTexts, rowLocks } from "./row-locks.ts";
import { settleArrays } from "./settle-arrays.ts";
import { Waves } from "./waves.ts";

type Cells = readonly unknown[];

export interface BatchParams {
  /** After the instant, the retention of keys and the node. */
  readonly params: readonly Param[];
  /** The settles in the order of the parameters. */
  readonly settles: readonly number[];
}

export function batchParams(batch: Batch, partitions: number): BatchParams {
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
    hints: batch.hints.map((hint) => [
      hint.partition,
      hint.tenantId,
      hint.destination,
      laneNumber(hint.lane),
      hint.dueAt,
    ]),
    documents: sortedDocuments(batch),
    isPlain: isPlain ? [1] : [],
    startsTasks: batch.creates.some(({ claimVersion }) => claimVersion !== null) ? [1] : [],
  };
  // The server tests whether a list is there, so empty ones are omitted.
  const used = Object.entries(lists).filter(([, list]) => list.length > 0);
  const rest = used.length === 0 ? null : storedJson(Object.fromEntries(used));
  const settles = settleArrays(order.map((index) => batch.settles[index] as Settle));
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
