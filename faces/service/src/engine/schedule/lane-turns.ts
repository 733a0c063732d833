/** Lane turns: small questions about lanes and their turns, for the scheduler. */
import type { DestinationLane, DestinationRuntime } from "../destination/destination-runtime.ts";
import { siblingOf } from "../destination/waiting-lane.ts";
import { claimCapacity } from "./claim-capacity.ts";
import type { LaneTurn } from "./lane-heap.ts";

/** The turns by tenant, in the order of the first turn of each. */
export function byTenantOf(turns: readonly LaneTurn[]): ReadonlyMap<string, readonly LaneTurn[]> {
  const byTenant = new Map<string, LaneTurn[]>();
  for (const turn of turns) {
    const { tenantId } = turn.lane.destination;
    const own = byTenant.get(tenantId);
    if (own === undefined) byTenant.set(tenantId, [turn]);
    else own.push(turn);
  }
  return byTenant;
}

export function isSuspect({ lane }: DestinationLane): boolean {
  return lane === "suspect";
}

/**
 * Where each call has its own instant (rates, a throttle), permits are taken one by one. The next
 * permit goes to the lane that is then due first, so a lane waits while its sibling is claimed.
 */
export function mustWaitForSibling(lane: DestinationLane): boolean {
  const isOneByOne = claimCapacity(lane.destination).due === 1;
  return isOneByOne && siblingOf(lane)?.isClaimed === true;
}

/**
 * May a new task that is due at `dueAt` start at once, or do older tasks wait for the same permit? A retry
 * that a guard holds does not block it, and neither does a suspect.
 */
export function mayStartNow(
  { first, retry }: DestinationRuntime["lanes"],
  dueAt: number,
  now: number,
): boolean {
  if (first.dueAt <= now) return false;
  return retry.dueAt >= Math.min(dueAt, now) || retry.blocked || retry.parked;
}
