/** Commit batch: builds the batch of one commit from items, planned claims and changed rows. */
import type { Permit } from "@redrive/core";
import type { Batch, CommitResult, CreateResult, OnEnd, StartedTask } from "../model/batch.ts";
import { type DestinationRow, isOpen } from "../model/destination-row.ts";
import { type LaneDue, WAKE_UP_MS } from "../model/lane-due.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { type CommitItems, type CommitQueue, type CreateItem, failItems } from "./commit-queue.ts";
import type { DestinationRuntime } from "./destination-runtime.ts";
import type { DocumentReports, EngineEvents } from "./events.ts";
import type { GuardSaver } from "./guard-saver.ts";
import type { Hold } from "./lanes.ts";
import type { NodeState, OwnPartitions } from "./node.ts";
import {
  assignSlots,
  claimRequestOf,
  type PlannedClaim,
  type Scheduler,
  stopArrivals,
} from "./scheduler.ts";
import { originOf } from "./slots.ts";

/** A commit that is under way: its batch, and what is needed to handle its result. */
export interface PendingCommit extends CommitItems {
  readonly batch: Batch;
  /** At the index of each create: the permit to start with, if any. */
  readonly permits: readonly (Permit | undefined)[];
  readonly claims: readonly PlannedClaim[];
  /** The destinations whose rows are written, in the order of the batch. */
  readonly written: readonly WrittenDestination[];
}

interface WrittenDestination {
  readonly destination: DestinationRuntime;
  /** The breaker was not closed in the row that the written one replaces. */
  readonly wasOpen: boolean;
}

/**
 * The commit without claims, and starts of new tasks, at destinations whose row it writes. A shared
 * store is atomic per partition only, and the row may be in another one. The claims wait until the row
 * is stored: if another node has written it first, they must not be made.
 */
function rowsFirst(commit: PendingCommit): RowsFirst {
  const isWritten = (destination: DestinationRuntime) =>
    commit.written.some((one) => one.destination === destination);
  const isDeferred = commit.claims.map(({ lane }) => isWritten(lane.destination));
  const starts = commit.creates.flatMap((item, index) => {
    const permit = commit.permits[index];
    return permit !== undefined && isWritten(item.destination) ? [{ item, permit }] : [];
  });
  const isDeferredStart = commit.creates.map(({ destination }) => isWritten(destination));
  const { batch } = commit;
  return {
    claims: commit.claims.filter((_, index) => isDeferred[index]),
    starts,
    commit: {
      ...commit,
      claims: commit.claims.filter((_, index) => !isDeferred[index]),
      permits: commit.permits.map((one, index) => (isDeferredStart[index] ? undefined : one)),
      batch: {
        ...batch,
        claims: batch.claims.filter((_, index) => !isDeferred[index]),
        creates: batch.creates.map((create, index) =>
          isDeferredStart[index] ? { ...create, claimVersion: null } : create,
        ),
      },
    },
  };
}

/** A commit, and what is left out of it. */
interface RowsFirst {
  readonly commit: PendingCommit;
  readonly claims: readonly PlannedClaim[];
  readonly starts: readonly { readonly item: CreateItem; readonly permit: Permit }[];
}

interface CommitBatchParts {
  readonly guardSaver: GuardSaver;
  readonly partitions: OwnPartitions;
}

/** Is there nothing to write? */
function isEmptyBatch(batch: Batch): boolean {
  const { destinations, creates, settles, cancels, retryNows, claims, documents } = batch;
  const tasks = creates.length + settles.length + cancels.length + retryNows.length + claims.length;
  return tasks + destinations.length + documents.length === 0;
}

/** Builds a commit; undefined if there is nothing to write. */
function buildCommit(
  author: Pick<Batch, "now" | "expiresAt" | "nodeId">,
  items: CommitItems,
  permits: readonly (Permit | undefined)[],
  claims: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
  { guardSaver, partitions }: CommitBatchParts,
): PendingCommit | undefined {
  const rows = changedRows(items, permits, claims, changed);
  for (const destination of changed) guardSaver.recordChange(destination);
  const documents = guardSaver.take(author.now);
  const { creates, settles, cancels, retryNows } = items;
  const count = creates.length + settles.length + cancels.length + retryNows.length;
  if (count + claims.length + rows.size + documents.length === 0) return undefined;
  const versionOf = (destination: DestinationRuntime) =>
    (rows.get(destination) ?? destination.row).version;
  // Field by field: spread would create a new hidden class for every batch.
  const batch: Batch = {
    now: author.now,
    expiresAt: author.expiresAt,
    nodeId: author.nodeId,
    destinations: [...rows.values()].map((row) => ({ row })),
    creates: creates.map(({ create, destination }, index) => ({
      task: create.task,
      fingerprint: create.fingerprint,
      claimVersion: permits[index] === undefined ? null : versionOf(destination),
    })),
    settles: settles.map(({ settle }) => settle),
    cancels: cancels.map(({ request }) => request),
    retryNows: retryNows.map(({ request }) => request),
    claims: claims.map((claim) => claimRequestOf(claim, versionOf(claim.lane.destination))),
    wakeUps: wakeUpsOf(items, permits, partitions, author.now + WAKE_UP_MS),
    documents,
  };
  const written = [...rows.keys()].map((destination) => ({
    destination,
    wasOpen: isOpen(destination.row),
  }));
  return { creates, settles, cancels, retryNows, batch, permits, claims, written };
}

/**
 * The rows to write. Only a destination that settled or gave a permit can have changed; those are
 * added to `changed`.
 */
function changedRows(
  { settles, creates }: CommitItems,
  permits: readonly (Permit | undefined)[],
  claims: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
): Map<DestinationRuntime, DestinationRow> {
  for (const { destination } of settles) changed.add(destination);
  for (const [index, { destination }] of creates.entries()) {
    if (permits[index] !== undefined) changed.add(destination);
  }
  for (const { lane } of claims) changed.add(lane.destination);
  const rows = new Map<DestinationRuntime, DestinationRow>();
  for (const destination of changed) {
    const row = destination.changedRow();
    if (row !== null) rows.set(destination, row);
  }
  return rows;
}

const NO_WAKE_UPS: readonly LaneDue[] = [];

/** The lanes of partitions of other nodes in which these items make a task wait that is due by then. */
function wakeUpsOf(
  { creates, settles, cancels }: CommitItems,
  permits: readonly (Permit | undefined)[],
  partitions: OwnPartitions,
  before: number,
): readonly LaneDue[] {
  if (partitions.isSingle) return NO_WAKE_UPS;
  const found = new Map<string, LaneDue>();
  const add = (due: LaneDue) => {
    if (partitions.has(due.partition) || due.dueAt > before) return;
    const key = `${due.partition}\n${due.lane}\n${due.tenantId}\n${due.destination}`;
    if (due.dueAt < (found.get(key)?.dueAt ?? Number.POSITIVE_INFINITY)) found.set(key, due);
  };
  const addFirst = ({ tenantId, taskId, destination, scheduledAt: dueAt }: NewTask) =>
    add({ tenantId, destination, lane: "first", partition: partitions.of(taskId), dueAt });
  for (const [index, { create }] of creates.entries()) {
    if (permits[index] === undefined) addFirst(create.task);
  }
  for (const { settle, destination } of settles) {
    for (const task of followUpsOf(settle.onEnd)) addFirst(task);
    if (settle.status !== "PENDING") continue;
    const { tenantId, taskId, lane, nextAttemptAt: dueAt } = settle;
    add({ tenantId, destination: destination.name, lane, partition: partitions.of(taskId), dueAt });
  }
  for (const { request } of cancels) for (const task of followUpsOf(request.onEnd)) addFirst(task);
  return found.size === 0 ? NO_WAKE_UPS : [...found.values()];
}

/** Only those of one status are created, but a wake-up without a task is harmless. */
function followUpsOf(onEnd: OnEnd | undefined): readonly NewTask[] {
  return onEnd === undefined ? [] : Object.values(onEnd).flat();
}

// Gather commit: takes the items of the next commit from the queue, together with the claims that the
// scheduler plans.

/** A transaction takes at most this many items. It may always claim `MIN_CLAIMS` tasks. */
const MAX_ITEMS = 256;
const MIN_CLAIMS = 64;

interface GatherParts extends CommitBatchParts {
  readonly store: Store;
  readonly node: NodeState;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
}

/** Takes at most `max` items. Undefined: there is nothing to commit. */
export function gatherCommit(
  parts: GatherParts,
  context: CommitContext,
  max: number,
  mayClaimSuspect: () => boolean,
): PendingCommit | undefined {
  const { node, scheduler, queue, store } = parts;
  const { now } = context;
  const items = queue.take(Math.min(max, MAX_ITEMS));
  const { creates, settles, cancels, retryNows } = items;
  const count = creates.length + settles.length + cancels.length + retryNows.length;
  const mayClaim = node.isActive();
  const permits = creates.map((item) => (mayClaim ? permitFor(parts, item, now) : undefined));
  const limit = Math.max(MIN_CLAIMS, MAX_ITEMS - count);
  const claims = mayClaim ? scheduler.planClaims(now, limit, mayClaimSuspect()) : [];
  const author = { now, expiresAt: context.expiresAt, nodeId: node.nodeId };
  const changed = queue.takeChanged();
  const commit = buildCommit(author, items, permits, claims, changed, parts);
  if (commit === undefined || store.exclusive) return commit;
  const rows = writeRowsFirst(context, commit);
  return isEmptyBatch(rows.batch) ? undefined : rows;
}

/** A task that is due at once may be inserted already claimed, unless older tasks wait. */
function permitFor(
  { node, scheduler }: GatherParts,
  { create, destination }: CreateItem,
  now: number,
): Permit | undefined {
  if (create.task.scheduledAt > now || node.isLoading) return undefined;
  return scheduler.takeStart(destination, create.task, now);
}

// Commit results: applies the result of a commit to destinations, lanes and permits, starts the
// claims, and reports to everyone who waits.

export interface CommitContext {
  readonly scheduler: Scheduler;
  readonly runner: ClaimRunner;
  readonly reports: DocumentReports;
  readonly events: EngineEvents;
  readonly now: number;
  /** Of the next commit, on the store's clock; null in an exclusive store. */
  readonly expiresAt: number | null;
}

/** The commit succeeded with this result. */
export function applyResult(
  context: CommitContext,
  commit: PendingCommit,
  result: CommitResult,
): void {
  stopArrivals(commit.claims);
  applyWrites(context, commit, result);
  reportEach(commit.settles, result.settles);
  for (const [index, item] of commit.creates.entries()) {
    applyCreate(context, item, commit.permits[index], result.creates[index] as CreateResult);
  }
  reportEach(commit.cancels, result.cancels);
  reportEach(commit.retryNows, result.retryNows);
  applyClaims(context, commit, result.claims);
}

/** Applies the rows that were written, or those of other nodes that were written before. */
export function applyWrites(
  context: Omit<CommitContext, "runner">,
  { written, batch }: Pick<PendingCommit, "written" | "batch">,
  result: Pick<CommitResult, "destinations">,
): void {
  for (const [index, { destination, wasOpen }] of written.entries()) {
    const stored = result.destinations[index] ?? null;
    const row = batch.destinations[index]?.row;
    if (stored !== null) adopt(context, destination, stored);
    else if (row !== undefined) {
      recordWrite(destination, row);
      reportBreaker(context, row, wasOpen);
    }
  }
}

/** The claims of a commit beside this one may have brought this row already, or a newer one. */
function recordWrite(destination: DestinationRuntime, row: DestinationRow): void {
  if (destination.row.version < row.version) destination.recordWrite(row);
}

/**
 * The node whose write wins reports the change, so that a fleet reports it once. `wasOpen`: of the row
 * that it replaced, because the store writes a row only over the version before it.
 */
function reportBreaker(
  { events, now }: Pick<CommitContext, "events" | "now">,
  row: DestinationRow,
  wasOpen: boolean,
): void {
  const isOpenNow = isOpen(row);
  if (wasOpen === isOpenNow) return;
  const { tenantId, name } = row;
  const type = isOpenNow ? "breaker.opened" : "breaker.closed";
  events.emit(now, { type, tenantId, destination: name });
}

function applyClaims(
  context: CommitContext,
  { claims }: PendingCommit,
  results: CommitResult["claims"],
): void {
  for (const [index, claim] of claims.entries()) {
    const result = results[index];
    if (result === undefined) continue;
    const origins = assignSlots(context.scheduler.slots, claim, result, context.now);
    context.scheduler.recordClaimed(claim, result);
    const { destination } = claim.lane;
    if (result.row !== null) adopt(context, destination, result.row);
    // The first permits took a retry token each; the last one may be a trial without a token.
    const used = claim.permits.splice(0, result.tasks.length);
    for (const [at, task] of result.tasks.entries()) {
      const hold = context.scheduler.holdOf(claim.lane, task.nextAttemptAt);
      context.runner.start(task, destination, used[at] as Permit, origins[at], hold);
    }
    returnPermits(context, destination, claim.permits);
  }
}

function applyCreate(
  context: CommitContext,
  item: CreateItem,
  permit: Permit | undefined,
  result: CreateResult,
): void {
  const { destination, create } = item;
  const started = result.kind === "created" ? result.started : null;
  if (result.kind === "created" && started === null) {
    if (result.row !== null) adopt(context, destination, result.row);
    const { taskId, scheduledAt } = create.task;
    const lane = destination.lanes.first;
    lane.origin ??= originOf(create.task.targetUrl);
    context.scheduler.expectTask(lane, taskId, scheduledAt);
  }
  item.done(result);
  if (permit === undefined) return;
  if (started === null) returnStart(context, item, permit);
  else context.runner.start(started, destination, permit, originOf(started.targetUrl), undefined);
}

/** The commit failed, and its effect is unknown. The caller repeats the settles. */
export function applyFailure(context: CommitContext, commit: PendingCommit, error: unknown): void {
  for (const [index, item] of commit.creates.entries()) {
    const permit = commit.permits[index];
    if (permit !== undefined) returnStart(context, item, permit);
    item.failed(error);
  }
  const { cancels, retryNows } = commit;
  failItems({ creates: [], cancels, retryNows }, error);
  for (const claim of commit.claims) returnClaim(context, claim);
}

/**
 * The commit without claims from destinations whose rows it writes: those are claimed from in the next
 * commit.
 */
function writeRowsFirst(context: CommitContext, commit: PendingCommit): PendingCommit {
  if (commit.written.length === 0) return commit;
  const { commit: rows, claims, starts } = rowsFirst(commit);
  for (const claim of claims) returnClaim(context, claim);
  for (const { item, permit } of starts) returnStart(context, item, permit);
  return rows;
}

/** A planned claim is not made. */
function returnClaim(context: CommitContext, claim: PlannedClaim): void {
  returnPermits(context, claim.lane.destination, claim.permits);
  context.scheduler.recordUnclaimed(claim);
}

function adopt(
  { scheduler, reports, now }: Pick<CommitContext, "scheduler" | "reports" | "now">,
  destination: DestinationRuntime,
  row: DestinationRow,
): void {
  destination.adopt(row, now);
  reports.record(destination.documentName, destination.reading);
  scheduler.unblock(destination, now);
}

/** A new task that was to start at once does not start. */
function returnStart(
  context: CommitContext,
  { create, destination }: CreateItem,
  permit: Permit,
): void {
  const { tenantId, targetUrl } = create.task;
  context.scheduler.slots.release(tenantId, originOf(targetUrl));
  returnPermits(context, destination, [permit]);
}

function returnPermits(
  { scheduler, now }: CommitContext,
  destination: DestinationRuntime,
  permits: readonly Permit[],
): void {
  if (permits.length === 0) return;
  // The latest first, so that the throttle reuses its random draws in their original order.
  for (let at = permits.length - 1; at >= 0; at--) {
    destination.returnPermit(permits[at] as Permit, now);
  }
  scheduler.unblock(destination, now);
}

function reportEach<Result>(
  items: readonly { readonly done: (result: Result) => void }[],
  results: readonly Result[],
): void {
  for (const [index, item] of items.entries()) item.done(results[index] as Result);
}

// Claim runner: the interface through which the commit loop passes committed claims on. The runner
// in `run/` implements it, so the commit loop does not depend on `run/`.

export interface ClaimRunner {
  /** The number of attempts whose request was sent. */
  running(): number;
  /** This node holds the claim of a suspect, so it may not claim another one. */
  hasSuspect(): boolean;
  /**
   * Starts a committed claim. `origin`: whose slot was taken; undefined: it has none, and the claim is
   * returned. `hold`: what held the task after it was due, if anything.
   */
  start(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    origin: string | undefined,
    hold: Hold | undefined,
  ): void;
  /** The store refuses every settle of one claim. It stays with this process, and a stop does not wait for it. */
  giveUp(): void;
}
