/**
 * Node lease: one row that shows that this node is alive. The node renews it at a fifth of its
 * length. A node that fails to renew it in time aborts its attempts, because other nodes may take
 * them over.
 */
import type { Store } from "../../model/store.ts";
import type { EngineTime } from "../../time/engine-time.ts";

export const LEASE_MS = 10_000;
export const RENEW_INTERVAL_MS = 2000;

export class NodeLease {
  readonly #store: Store;
  readonly #time: EngineTime;
  readonly #nodeId: string;
  #leaseUntil = 0;
  #heldSince = 0;

  constructor(store: Store, time: EngineTime, nodeId: string) {
    this.#store = store;
    this.#time = time;
    this.#nodeId = nodeId;
  }

  /** In an exclusive store no other node exists, so the lease cannot be lost. */
  isHeld(now: number): boolean {
    return now < this.#leaseUntil || (this.#store.exclusive && this.#leaseUntil > 0);
  }

  /** Since when the lease is held without a gap. Another node may have taken over older claims. */
  heldSince(): number {
    return this.#heldSince;
  }

  /** The lease counts from the request, so the store never sees it end earlier than this node. */
  async renew(): Promise<void> {
    const now = this.#time.now();
    const leaseUntil = now + LEASE_MS;
    await this.#store.renew({ nodeId: this.#nodeId, now, leaseUntil });
    const isGap = this.#time.now() >= this.#leaseUntil && !this.#store.exclusive;
    if (isGap) this.#heldSince = this.#time.now();
    this.#leaseUntil = leaseUntil;
  }
}
