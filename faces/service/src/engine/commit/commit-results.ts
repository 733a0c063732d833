/**
 * Turn results: what a commit that has ended means for destinations, lanes, permits and whoever
 * waits for an answer.
 */
import type { Permit } from "@redrive/core";
import type { DestinationRow } from "../../model/destination-row.ts";
import type { CommitResult, CreateResult } from "../../model/batch.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import { holdOf } from "../destination/waiting-lane.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { CreateItem, PendingCommit, TurnHost } from "./commit-batch.ts";

/** Who is told. */
export interface Told {
  readonly scheduler: Scheduler;
  readonly host: TurnHost;
  readonly now: number;
}

/** Everything in the load has happened, as `result` says. */
export function tellCommitted(told: Told, load: PendingCommit, result: CommitResult): void {
  for (const [index, destination] of load.written.entries()) {
    const standing = result.destinations[index] ?? null;
    const row = load.batch.destinations[index]?.row;
    if (standing !== null) adopt(told, destination, standing);
    else if (row !== undefined) destination.recordWrite(row);
  }
  tellEach(load.settles, result.settles);
  for (const [index, item] of load.creates.entries()) {
    tellCreated(told, item, load.permits[index], result.creates[index] as CreateResult);
  }
  tellEach(load.cancels, result.cancels);
  tellEach(load.wakes, result.retryNows);
  tellClaims(told, load, result.claims);
}

function tellClaims(told: Told, { picks }: PendingCommit, claims: CommitResult["claims"]): void {
  for (const [index, pick] of picks.entries()) {
    const claim = claims[index];
    if (claim === undefined) continue;
    told.scheduler.claimed(pick, claim);
    const { destination } = pick.lane;
    if (claim.row !== null) adopt(told, destination, claim.row);
    // The first ones took a retry token each; the last one may be a trial without a token.
    const used = pick.permits.splice(0, claim.tasks.length);
    for (const [at, task] of claim.tasks.entries()) {
      const hold = holdOf(pick.lane, task.nextAttemptAt);
      told.host.carryOut(task, destination, used[at] as Permit, hold);
    }
    giveBack(told, destination, pick.permits);
  }
}

function tellCreated(
  told: Told,
  item: CreateItem,
  permit: Permit | undefined,
  result: CreateResult,
): void {
  const { destination, create } = item;
  const started = result.kind === "created" ? result.started : null;
  if (result.kind === "created" && started === null) {
    if (result.row !== null) adopt(told, destination, result.row);
    told.scheduler.expectDueAt(destination.lanes.first, create.task.scheduledAt);
  }
  item.done(result);
  if (permit === undefined) return;
  if (started !== null) told.host.carryOut(started, destination, permit, undefined);
  else giveBack(told, destination, [permit]);
}

/** Nobody knows what of the load has happened. Its settles are to be tried again by the caller. */
export function tellFailed(told: Told, load: PendingCommit, error: unknown): void {
  for (const [index, item] of load.creates.entries()) {
    const permit = load.permits[index];
    if (permit !== undefined) giveBack(told, item.destination, [permit]);
    item.failed(error);
  }
  for (const item of [...load.cancels, ...load.wakes]) item.failed(error);
  for (const pick of load.picks) {
    giveBack(told, pick.lane.destination, pick.permits);
    told.scheduler.unclaimed(pick);
  }
}

function adopt(
  { scheduler, now }: Told,
  destination: DestinationRuntime,
  row: DestinationRow,
): void {
  destination.adopt(row, now);
  scheduler.unblock(destination, now);
}

function giveBack(
  { scheduler, now }: Told,
  destination: DestinationRuntime,
  permits: readonly Permit[],
): void {
  if (permits.length === 0) return;
  // The latest first: the throttle's draws are then used again in the order in which they were made.
  for (let at = permits.length - 1; at >= 0; at--)
    destination.returnPermit(permits[at] as Permit, now);
  scheduler.unblock(destination, now);
}

function tellEach<Result>(
  items: readonly { readonly done: (result: Result) => void }[],
  results: readonly Result[],
): void {
  for (const [index, item] of items.entries()) item.done(results[index] as Result);
}
