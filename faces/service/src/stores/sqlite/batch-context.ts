/** Batch context: the node, the time, the rejected destinations and the claims of the batch. */
import type { ClaimRequest, StartedTask } from "../../model/batch.ts";
import type { StoredDestination } from "./destination-table.ts";

/** A claim that knows its waiting tasks and has not written anything. */
export interface OpenClaim {
  readonly request: ClaimRequest;
  readonly stored: StoredDestination;
  readonly isCurrent: boolean;
  /** Waiting tasks, the earliest first: those that are due, and those that are due soon. */
  readonly due: readonly StartedTask[];
  readonly ahead: readonly StartedTask[];
  /** New tasks that were inserted with a permit of this claim. */
  readonly started: StartedTask[];
  /** A new task was due before a waiting one: the claim reads both in order once it is inserted. */
  isOutdated: boolean;
}

/** The open claims that new tasks may use, by destination. */
export type NewTaskClaims = Map<StoredDestination, OpenClaim>;

/** The node that writes, and the time. */
export interface BatchContext {
  readonly now: number;
  readonly nodeId: string;
  /** The number of the node. */
  readonly node: number;
  /** Destinations whose write in this batch was rejected. */
  readonly refused: Set<StoredDestination>;
  /** Claims of this batch with permits for new tasks. */
  newTaskClaims: NewTaskClaims | undefined;
}

/**
 * True if a claim made under `version` is current. A destination without a row (version 0) allows
 * any claim.
 */
export function mayClaim(
  { refused }: BatchContext,
  stored: StoredDestination,
  version: number,
): boolean {
  const { row } = stored;
  return row.version === 0 || (row.version === version && !refused.has(stored));
}
