/**
 * New task claims: lets new tasks take the permits that a claim of the same batch has left. A task that
 * is inserted already claimed needs no second statement and no entry in the index of waiting tasks.
 * The result is the same as if all tasks were inserted first and then claimed.
 */
import type { Batch, ClaimRequest, StartedTask } from "../../../model/batch.ts";
import type { NewTask } from "../../../model/task.ts";
import type { StoredDestination } from "../tables/destination-table.ts";
import type { NewTaskClaims, OpenClaim } from "./batch-context.ts";

/**
 * May the claims read the waiting tasks before the rest of the batch is written? Only if nothing
 * in the batch makes a task wait, except new tasks, and those are due, in the order of the batch.
 */
export function mayOpenEarly({
  now,
  creates,
  settles,
  cancels,
  retryNows,
  claims,
}: Batch): boolean {
  if (creates.length === 0 || claims.length === 0) return false;
  if (cancels.length + retryNows.length > 0) return false;
  if (!settles.every(({ status, onEnd }) => status !== "PENDING" && onEnd === undefined))
    return false;
  let latestAt = Number.NEGATIVE_INFINITY;
  for (const { task } of creates) {
    if (task.scheduledAt < latestAt || task.scheduledAt > now) return false;
    latestAt = task.scheduledAt;
  }
  return claims.length === 1 || new Set(claims.map(laneOf)).size === claims.length;
}

function laneOf({ tenantId, destination, lane }: ClaimRequest): string {
  return [lane, tenantId, destination].join("\n");
}

export function newTaskClaims(claims: readonly OpenClaim[]): NewTaskClaims {
  const usable = claims.filter(({ request, isCurrent }) => isCurrent && request.lane === "first");
  return new Map(usable.map((claim) => [claim.stored, claim]));
}

/** The claim that has a permit for the new task, if any. The caller adds the task to `started`. */
export function claimFor(
  claims: NewTaskClaims,
  stored: StoredDestination,
  { scheduledAt }: NewTask,
  now: number,
): OpenClaim | undefined {
  const claim = claims.get(stored);
  if (claim === undefined || claim.isOutdated) return undefined;
  const { request, due, started } = claim;
  if (scheduledAt > now + Math.min(0, request.aheadMs)) return undefined;
  claim.isOutdated = scheduledAt < lastDueAt(due);
  return !claim.isOutdated && due.length + started.length < request.limit ? claim : undefined;
}

function lastDueAt(due: readonly StartedTask[]): number {
  return due.at(-1)?.nextAttemptAt ?? Number.NEGATIVE_INFINITY;
}
