/**
 * Author: in whose name and under what knowledge a batch is written.
 */
import type { StoredDestination } from "./destination-table.ts";

/** Who writes, and when. */
export interface BatchContext {
  readonly now: number;
  /** The number of the node. */
  readonly node: number;
  /** Destinations whose write this batch brought and did not get. */
  readonly refused: Set<StoredDestination>;
}

/** True if a claim made under `version` knows what stands. Version 0 has nothing to know. */
export function mayClaim(
  { refused }: BatchContext,
  stored: StoredDestination,
  version: number,
): boolean {
  const { row } = stored;
  return row.version === 0 || (row.version === version && !refused.has(stored));
}
