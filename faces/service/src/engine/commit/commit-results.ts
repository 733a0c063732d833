/**
 * Commit results: applies the result of a commit to destinations, lanes and permits, starts the
 * claims, and reports to everyone who waits.
 */
import type { Permit } from "@redrive/core";
import type { CommitResult, CreateResult } from "../../model/batch.ts";
import { type DestinationRow, isOpen } from "../../model/destination-row.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { DocumentReports } from "../events/document-reports.ts";
import type { EngineEvents } from "../events/engine-events.ts";
import { assignSlots } from "../schedule/assign-slots.ts";
import { originOf } from "../schedule/origin.ts";
import { type PlannedClaim, stopArrivals } from "../schedule/planned-claim.ts";
import type { Schedule, Scheduler } from "../schedule/scheduler.ts";
import type { ClaimRunner } from "./claim-runner.ts";
import { type PendingCommit, rowsFirst } from "./commit-batch.ts";
import { type CreateItem, failItems } from "./commit-queue.ts";

export interface CommitContext {
  readonly scheduler: Scheduler;
  /** The lanes of a destination on all shards. */
  readonly schedule: Schedule;
  /** Several shards wait for the rows that this loop writes. */
  readonly isShared: boolean;
  readonly runner: ClaimRunner;
  readonly reports: DocumentReports;
  readonly events: EngineEvents;
  readonly now: number;
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
  context: Omit<CommitContext, "scheduler" | "runner">,
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
      if (context.isShared) context.schedule.unblock(destination, context.now);
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
    const lane = context.scheduler.laneOf(destination, "first", taskId);
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
  // The other shards go on without the row.
  if (context.isShared) {
    for (const { destination } of commit.written) {
      context.schedule.unblock(destination, context.now);
    }
  }
}

/**
 * The commit without claims from destinations whose rows it writes: those are claimed from in the next
 * commit. Claims from destinations whose row another loop writes (`elsewhere`) wait for that.
 */
export function writeRowsFirst(
  context: CommitContext,
  commit: PendingCommit,
  elsewhere: ReadonlySet<DestinationRuntime>,
): PendingCommit {
  if (commit.written.length + elsewhere.size === 0) return commit;
  const { commit: rows, claims, starts } = rowsFirst(commit, elsewhere);
  for (const claim of claims) {
    returnClaim(context, claim, elsewhere.has(claim.lane.destination));
  }
  for (const { item, permit } of starts) returnStart(context, item, permit);
  return rows;
}

/** A planned claim is not made. `isBlocked`: it waits until the row of its destination is stored. */
function returnClaim(context: CommitContext, claim: PlannedClaim, isBlocked = false): void {
  returnPermits(context, claim.lane.destination, claim.permits);
  context.scheduler.recordUnclaimed(claim, isBlocked);
}

function adopt(
  { schedule, reports, now }: Pick<CommitContext, "schedule" | "reports" | "now">,
  destination: DestinationRuntime,
  row: DestinationRow,
): void {
  destination.adopt(row, now);
  reports.record(destination.documentName, destination.reading);
  schedule.unblock(destination, now);
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
  { schedule, now }: CommitContext,
  destination: DestinationRuntime,
  permits: readonly Permit[],
): void {
  if (permits.length === 0) return;
  // The latest first, so that the throttle reuses its random draws in their original order.
  for (let at = permits.length - 1; at >= 0; at--) {
    destination.returnPermit(permits[at] as Permit, now);
  }
  schedule.unblock(destination, now);
}

function reportEach<Result>(
  items: readonly { readonly done: (result: Result) => void }[],
  results: readonly Result[],
): void {
  for (const [index, item] of items.entries()) item.done(results[index] as Result);
}
