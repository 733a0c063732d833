/**
 * Row homes: which commit loop writes the row of a destination. In a store with several shards it is
 * that of the destination's home shard, so a node never writes one row twice at the same time.
 */
import type { DestinationRuntime } from "../destination/destination-runtime.ts";

/** As one commit loop sees it. */
export interface RowHomes {
  isHere(destination: DestinationRuntime): boolean;
  /**
   * The row has changed, and another loop writes it. True: claims from the destination wait for that.
   * False: the home shard fails, so the destination goes on with the guards of this node alone.
   */
  handOver(destination: DestinationRuntime): boolean;
}
