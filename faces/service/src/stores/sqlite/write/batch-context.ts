/** Batch context: the node, the time and the rejected destinations of the batch being written. */
import type { StoredDestination } from "../tables/destination-table.ts";

/** The node that writes, and the time. */
export interface BatchContext {
  readonly now: number;
  /** The number of the node. */
  readonly node: number;
  /** Destinations whose write in this batch was rejected. */
  readonly refused: Set<StoredDestination>;
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
