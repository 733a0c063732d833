/** Commit batch: builds the batch of one commit from items, planned claims and changed rows. */
import type { Permit } from "@redrive/core";
import type { Batch } from "../../model/batch.ts";
import { type DestinationRow, isOpen } from "../../model/destination-row.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { GuardSaver } from "../destination/guard-saver.ts";
import type { OwnPartitions } from "../node/own-partitions.ts";
import { claimRequestOf, type PlannedClaim } from "../schedule/planned-claim.ts";
import { hintsOf } from "./commit-hints.ts";
import type { CommitItems, CreateItem } from "./commit-queue.ts";
import type { RowHomes } from "./row-homes.ts";

/** A commit that is under way: its batch, and what is needed to handle its result. */
export interface PendingCommit extends CommitItems {
  readonly batch: Batch;
  /** At the index of each create: the permit to start with, if any. */
  readonly permits: readonly (Permit | undefined)[];
  readonly claims: readonly PlannedClaim[];
  /** The destinations whose rows are written, in the order of the batch. */
  readonly written: readonly WrittenDestination[];
}

export interface WrittenDestination {
  readonly destination: DestinationRuntime;
  /** The breaker was not closed in the row that the written one replaces. */
  readonly wasOpen: boolean;
}

/**
 * The commit without claims, and starts of new tasks, at destinations whose row it writes. A shared
 * store is atomic per partition only, and the row may be in another one. The claims wait until the row
 * is stored: if another node has written it first, they must not be made. `elsewhere`: the destinations
 * whose row another commit loop writes.
 */
export function rowsFirst(
  commit: PendingCommit,
  elsewhere: ReadonlySet<DestinationRuntime>,
): RowsFirst {
  const isWritten = (destination: DestinationRuntime) =>
    elsewhere.has(destination) || commit.written.some((one) => one.destination === destination);
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
export interface RowsFirst {
  readonly commit: PendingCommit;
  readonly claims: readonly PlannedClaim[];
  readonly starts: readonly { readonly item: CreateItem; readonly permit: Permit }[];
}

export interface CommitBatchParts {
  readonly guardSaver: GuardSaver;
  readonly partitions: OwnPartitions;
  /** Undefined: this loop writes all rows. */
  readonly homes: RowHomes | undefined;
}

/** Is there nothing to write? */
export function isEmptyBatch(batch: Batch): boolean {
  const { destinations, creates, settles, cancels, retryNows, claims, hints, documents } = batch;
  const tasks = creates.length + settles.length + cancels.length + retryNows.length + claims.length;
  return tasks + destinations.length + hints.length + documents.length === 0;
}

/**
 * Builds a commit; undefined if there is nothing to write. Adds the destinations to `elsewhere` whose
 * row another commit loop writes before anything is claimed there.
 */
export function buildCommit(
  author: Pick<Batch, "now" | "nodeId">,
  items: CommitItems,
  permits: readonly (Permit | undefined)[],
  claims: readonly PlannedClaim[],
  changed: Set<DestinationRuntime>,
  elsewhere: Set<DestinationRuntime>,
  { guardSaver, partitions, homes }: CommitBatchParts,
): PendingCommit | undefined {
  const rows = changedRows(items, permits, claims, changed);
  if (homes !== undefined) handOver(homes, rows, elsewhere);
  for (const destination of changed) guardSaver.recordChange(destination);
  const documents = guardSaver.take(author.now);
  const { creates, settles, cancels, retryNows, hints } = items;
  const count = creates.length + settles.length + cancels.length + retryNows.length + hints.length;
  if (count + claims.length + rows.size + documents.length === 0) return undefined;
  const versionOf = (destination: DestinationRuntime) =>
    (rows.get(destination) ?? destination.row).version;
  // Field by field: spread would create a new hidden class for every batch.
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
    cancels: cancels.map(({ request }) => request),
    retryNows: retryNows.map(({ request }) => request),
    claims: claims.map((claim) => claimRequestOf(claim, versionOf(claim.lane.destination))),
    hints: hintsOf(items, partitions),
    documents,
  };
  const written = [...rows.keys()].map((destination) => ({
    destination,
    wasOpen: isOpen(destination.row),
  }));
  return { creates, settles, cancels, retryNows, hints, batch, permits, claims, written };
}

/** Leaves only the rows of this loop. */
function handOver(
  homes: RowHomes,
  rows: Map<DestinationRuntime, DestinationRow>,
  elsewhere: Set<DestinationRuntime>,
): void {
  for (const destination of rows.keys()) {
    if (homes.isHere(destination)) continue;
    rows.delete(destination);
    if (homes.handOver(destination)) elsewhere.add(destination);
  }
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
