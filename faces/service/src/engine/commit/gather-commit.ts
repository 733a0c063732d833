/**
 * Gather commit: takes the items of the next commit from the queue, together with the claims that the
 * scheduler plans.
 */
import type { Permit } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { DestinationRuntime } from "../destination/destination-runtime.ts";
import type { NodeState } from "../node/node-state.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import {
  buildCommit,
  type CommitBatchParts,
  isEmptyBatch,
  type PendingCommit,
} from "./commit-batch.ts";
import type { CommitQueue, CreateItem } from "./commit-queue.ts";
import { type CommitContext, writeRowsFirst } from "./commit-results.ts";

/** A transaction takes at most this many items. It may always claim `MIN_CLAIMS` tasks. */
const MAX_ITEMS = 256;
const MIN_CLAIMS = 64;

export interface GatherParts extends CommitBatchParts {
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
  const author = { now, nodeId: node.nodeId };
  const elsewhere = new Set<DestinationRuntime>();
  const changed = queue.takeChanged();
  const commit = buildCommit(author, items, permits, claims, changed, elsewhere, parts);
  if (commit === undefined || store.exclusive) return commit;
  const rows = writeRowsFirst(context, commit, elsewhere);
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
