/**
 * Author: in whose name and under what knowledge a batch is written.
 */
import type { Place } from "./destination-table.ts";

/** Who writes, and when. */
export interface Author {
  readonly now: number;
  /** The number of the node. */
  readonly node: number;
  /** Destinations whose write this batch brought and did not get. */
  readonly refused: Set<Place>;
}

/** True if a claim made under `version` knows what stands. Version 0 has nothing to know. */
export function mayClaim({ refused }: Author, place: Place, version: number): boolean {
  const { row } = place;
  return row.version === 0 || (row.version === version && !refused.has(place));
}
