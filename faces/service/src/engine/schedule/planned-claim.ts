/** Planned claim: a claim that the scheduler plans, and the request to the store that makes it. */
import type { Permit } from "@redrive/core";
import type { ClaimRequest } from "../../model/batch.ts";
import type { DestinationLane } from "../destination/destination-runtime.ts";

/** A claim to make: its permits are already taken. */
export interface PlannedClaim {
  readonly lane: DestinationLane;
  /** The partitions to claim from. */
  readonly partitions: readonly number[];
  readonly permits: Permit[];
  /** The origin whose slots were taken, one for each permit; undefined: the origin is not known. */
  readonly origin: string | undefined;
  /** How many tasks that are due soon may be claimed together with the due tasks. */
  readonly ahead: number;
  /** How soon. Negative: only tasks that have been due for this long, as another lane is next. */
  readonly aheadMs: number;
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
