/** Planned claim: a claim that the scheduler plans, and the request to the store that makes it. */
import type { Permit } from "@redrive/core";
import type { ClaimRequest } from "../../model/batch.ts";
import type { DestinationLane } from "../destination/destination-runtime.ts";
import { isReady, siblingOf } from "../destination/waiting-lane.ts";

/** A claim to make: its permits are already taken. */
export interface PlannedClaim {
  readonly lane: DestinationLane;
  /** The partitions to claim from. */
  readonly partitions: readonly number[];
  readonly permits: Permit[];
  /** What the lane learns until the claim is committed; undefined in a store with one partition. */
  readonly arrivals: ReadonlyMap<number, number> | undefined;
  /** The origin whose slots were taken, one for each permit; undefined: the origin is not known. */
  readonly origin: string | undefined;
  /** How many tasks that are due soon may be claimed together with the due tasks. */
  readonly ahead: number;
  /** How soon. Negative: only tasks that have been due for this long, as another lane is next. */
  readonly aheadMs: number;
}

interface Reach extends Pick<PlannedClaim, "ahead" | "aheadMs"> {
  /** There are fewer permits than the lane could use. */
  readonly isScarce: boolean;
  readonly now: number;
}

/** If permits are scarce, no task of the lane may overtake an older task of the other lane. */
export function plannedClaim(
  { lane, partitions, permits, arrivals, origin }: Omit<PlannedClaim, "ahead" | "aheadMs">,
  { ahead, aheadMs, isScarce, now }: Reach,
): PlannedClaim {
  const sibling = isScarce ? siblingOf(lane) : undefined;
  const isFree = sibling === undefined || !isReady(sibling, now);
  if (isFree) return { lane, partitions, permits, arrivals, origin, ahead, aheadMs };
  const olderMs = (lane.lane === "first" ? sibling.dueAt : sibling.dueAt - 1) - now;
  const reachMs = Math.min(0, olderMs);
  return { lane, partitions, permits, arrivals, origin, ahead: 0, aheadMs: reachMs };
}

/** Returns where the lane records the instants that become known until the claim is committed. */
export function beginClaim(lane: DestinationLane, isShared: boolean): DestinationLane["arrivals"] {
  lane.isClaimed = true;
  lane.arrivals = isShared ? new Map() : undefined;
  return lane.arrivals;
}

export function endClaim(lane: DestinationLane): void {
  lane.isClaimed = false;
  lane.arrivals = undefined;
}

/** The claims were committed. They have seen the other items of their commit. */
export function stopArrivals(claims: readonly PlannedClaim[]): void {
  for (const { lane } of claims) lane.arrivals = undefined;
}

export function claimRequestOf(
  { lane, partitions, permits, ahead, aheadMs }: PlannedClaim,
  version: number,
): ClaimRequest {
  const { tenantId, name } = lane.destination;
  return {
    tenantId,
    destination: name,
    lane: lane.lane,
    partitions,
    limit: permits.length,
    aheadMs: ahead > 0 ? aheadMs : Math.min(0, aheadMs),
    aheadLimit: ahead,
    version,
  };
}
