/**
 * Node lease: this node's sign of life, one row for all it does. Renewed at a fifth of its length;
 * a node that could not renew it in time stops its attempts, since others may take them over.
 */
import type { Store } from "../../model/store.ts";
import type { EngineTime } from "./engine-time.ts";

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

  /** In a store of its own a node has nobody to lose it to. */
  isHeld(now: number): boolean {
    return now < this.#leaseUntil || (this.#store.exclusive && this.#leaseUntil > 0);
  }

  /** Since when it has been held without a gap: an older claim may have been taken over. */
  heldSince(): number {
    return this.#heldSince;
  }

  /** Counts from when the renewal was asked for, so that the store never sees it end earlier. */
  async renew(): Promise<void> {
    const now = this.#time.now();
    const leaseUntil = now + LEASE_MS;
    await this.#store.renew({ nodeId: this.#nodeId, now, leaseUntil });
    const isGap = this.#time.now() >= this.#leaseUntil && !this.#store.exclusive;
    if (isGap) this.#heldSince = this.#time.now();
    this.#leaseUntil = leaseUntil;
  }
}
