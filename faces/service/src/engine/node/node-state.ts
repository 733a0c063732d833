/**
 * Node state: whether this node may claim tasks and start attempts now. It combines the phase of
 * the engine with the node's lease. The engine writes the phase; the other parts only read it.
 */
import type { NodeLease } from "./node-lease.ts";

export type Phase = "new" | "running" | "stopping" | "stopped";

export class NodeState {
  readonly nodeId: string;
  readonly #lease: NodeLease;
  phase: Phase = "new";
  /** Due lanes of an earlier process are still being loaded. */
  isLoading = false;

  constructor(nodeId: string, lease: NodeLease) {
    this.nodeId = nodeId;
    this.#lease = lease;
  }

  isRunning(): boolean {
    return this.phase === "running";
  }

  isStopped(): boolean {
    return this.phase === "stopped";
  }

  /** The engine runs and the node certainly holds its lease. */
  isActive(): boolean {
    return this.phase === "running" && this.#lease.isCertain();
  }

  /** May the attempt of a claim that was made at `claimedAt` start now? */
  mayStart(claimedAt: number): boolean {
    return this.phase === "running" && this.ownsClaim(claimedAt);
  }

  /** Certainly no other node has taken over a claim that was made at `claimedAt`. */
  ownsClaim(claimedAt: number): boolean {
    return this.#lease.isCertain() && claimedAt >= this.#lease.heldSince();
  }
}
