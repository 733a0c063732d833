/**
 * Turn load: the items that callers hand to a turn, and what of them goes into one commit.
 */
import type { Permit } from "@redrive/core";
import type { DestinationRow } from "../../model/destination-row.ts";
import type { Batch, CancelResult, Create, CreateResult, RetryNowResult, Settle, SettleResult, StartedTask, TaskRef } from "../../model/batch.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { GuardSaver } from "../destination/guard-saver.ts";
import type { Hold } from "../destination/waiting-lane.ts";
import { claimRequestOf, type PlannedClaim } from "../schedule/scheduler.ts";

export interface CreateItem {
  readonly create: Omit<Create, "claimVersion">;
  readonly destination: DestinationRuntime;
  readonly done: (result: CreateResult) => void;
  readonly failed: (error: unknown) => void;
}

export interface SettleItem {
  readonly settle: Settle;
  readonly destination: DestinationRuntime;
  readonly done: (result: SettleResult) => void;
}

export interface RefItem<Result> {
  readonly ref: TaskRef;
  readonly done: (result: Result) => void;
  readonly failed: (error: unknown) => void;
}

/** What the turn asks of the engine around it. */
export interface TurnHost {
  readonly nodeId: string;
  /** May attempts be started now? */
  mayClaim(now: number): boolean;
  /** Attempts on the wire. */
  running(): number;
  /** Those, and claims whose tasks are about to be due. */
  underWay(): number;
  /** Carries out a claim that is committed. `hold`: what held the task after it was due, if anything. */
  carryOut(
    task: StartedTask,
    destination: DestinationRuntime,
    permit: Permit,
    hold: Hold | undefined,
  ): void;
  /** The store works again after a failure. */
  committed(): void;
  failed(error: unknown): void;
  /** Everything that was put in is committed. */
  idle(): void;
}

/** What goes into one commit. */
export interface PendingCommit extends CommitItems {
  readonly batch: Batch;
  /** At the index of its create: the permit it is to start with. */
  readonly permits: readonly (Permit | undefined)[];
  readonly picks: readonly PlannedClaim[];
  readonly written: readonly DestinationRuntime[];
}

/** Items that were taken out of the queues. */
export interface CommitItems {
  readonly creates: readonly CreateItem[];
  readonly settles: readonly SettleItem[];
  readonly cancels: readonly RefItem<CancelResult>[];
  readonly wakes: readonly RefItem<RetryNowResult>[];
}

/** Who writes, and when. */
export interface LoadAuthor {
  readonly now: number;
  readonly nodeId: string;
}

/** Makes a batch; undefined if there is nothing to tell the store. */
export function loadOf(
  author: LoadAuthor,
  taken: CommitItems,
  permits: readonly (Permit | undefined)[],
  picks: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
  guardNotes: GuardSaver,
): PendingCommit | undefined {
  const rows = changedRows(taken, permits, picks, changed);
  for (const destination of changed) guardNotes.changed(destination);
  const notes = guardNotes.take(author.now);
  const { creates, settles, cancels, wakes } = taken;
  const items = creates.length + settles.length + cancels.length + wakes.length;
  if (items + picks.length + rows.size + notes.length === 0) return undefined;
  const versionOf = (destination: DestinationRuntime) =>
    (rows.get(destination) ?? destination.row).version;
  // Field by field: spreading would give every batch a hidden class of its own.
  const batch: Batch = {
    now: author.now,
    nodeId: author.nodeId,
    destinations: [...rows.values()].map((row) => ({ row })),
    creates: creates.map(({ create, destination }, index) => ({
      task: create.task,
      fingerprint: create.fingerprint,
      claimVersion: permits[index] === undefined ? null : versionOf(destination),
    })),
    settles: settles.map(({ settle }) => settle),
    cancels: cancels.map(({ ref }) => ref),
    retryNows: wakes.map(({ ref }) => ref),
    claims: picks.map((pick) => claimRequestOf(pick, versionOf(pick.lane.destination))),
    documents: notes,
  };
  const written = [...rows.keys()];
  return { creates, settles, cancels, wakes, batch, permits, picks, written };
}

/** Only who settled, was asked for a permit, or said so can have changed: they are put in `changed`. */
function changedRows(
  { settles, creates }: CommitItems,
  permits: readonly (Permit | undefined)[],
  picks: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
): Map<DestinationRuntime, DestinationRow> {
  const touched = changed;
  for (const { destination } of settles) touched.add(destination);
  for (const [index, { destination }] of creates.entries()) {
    if (permits[index] !== undefined) touched.add(destination);
  }
  for (const { lane } of picks) touched.add(lane.destination);
  const rows = new Map<DestinationRuntime, DestinationRow>();
  for (const destination of touched) {
    const row = destination.changedRow();
    if (row !== null) rows.set(destination, row);
  }
  return rows;
}
