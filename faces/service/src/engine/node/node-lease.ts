/**
 * Node lease: one row that shows that this node is alive. The node renews it at a fifth of its
 * length. If it fails to renew it, it aborts its attempts a tenth of the length before the lease ends,
 * because other nodes may then take them over. Other systems call the length visibility timeout.
 */
import { assertRange, type Cancel, type Clock } from "@redrive/core";
import type { Store } from "../../model/store.ts";
import type { EngineTime } from "../../time/engine-time.ts";

export const DEFAULT_LEASE_MS = 10_000;
export const MIN_LEASE_MS = 1000;
export const MAX_LEASE_MS = 600_000;

const RENEWALS_PER_LEASE = 5;
const MARGIN_SHARE = 0.1;

export interface NodeLeaseParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly time: EngineTime;
  readonly nodeId: string;
  /** 1 second to 10 minutes. Default: 10 seconds. */
  readonly leaseMs?: number | undefined;
}

export class NodeLease {
  readonly renewIntervalMs: number;
  readonly #parts: NodeLeaseParts;
  readonly #leaseMs: number;
  #leaseUntil = 0;
  /** When the node stops using the lease, on the monotonic clock. */
  #usableUntilMs = 0;
  #heldSince = 0;
  #onLapse: (() => void) | undefined;
  #cancelLapse: Cancel | undefined;

  constructor(parts: NodeLeaseParts) {
    const { leaseMs = DEFAULT_LEASE_MS } = parts;
    assertRange("leaseMs", leaseMs, MIN_LEASE_MS, MAX_LEASE_MS);
    this.#parts = parts;
    this.#leaseMs = leaseMs;
    this.renewIntervalMs = leaseMs / RENEWALS_PER_LEASE;
  }

  /**
   * In an exclusive store no other node exists, so the lease cannot be lost. Both clocks count: the
   * monotonic clock stops while the machine sleeps, and the wall clock may be set.
   */
  isHeld(): boolean {
    const { clock, store, time } = this.#parts;
    if (store.exclusive) return this.#leaseUntil > 0;
    return clock.monotonicMs() < this.#usableUntilMs && time.leaseNow() < this.#leaseUntil;
  }

  /** Since when the lease is held without a gap. Another node may have taken over older claims. */
  heldSince(): number {
    return this.#heldSince;
  }

  /** Calls `listener` when the lease was not renewed in time, shortly before it ends. */
  onLapse(listener: () => void): void {
    this.#onLapse = listener;
  }

  /** The lease counts from the request, so the store never sees it end earlier than this node. */
  async renew(): Promise<void> {
    const { clock, store, time, nodeId } = this.#parts;
    const requestMs = clock.monotonicMs();
    const leaseUntil = time.leaseNow() + this.#leaseMs;
    await store.renew({ nodeId, now: time.now(), leaseUntil });
    if (store.exclusive) {
      this.#leaseUntil = leaseUntil;
      return;
    }
    if (!this.isHeld()) this.#heldSince = time.now();
    this.#leaseUntil = leaseUntil;
    this.#usableUntilMs = requestMs + this.#leaseMs * (1 - MARGIN_SHARE);
    this.#cancelLapse?.();
    const leftMs = this.#usableUntilMs - clock.monotonicMs();
    this.#cancelLapse = clock.alarm(leftMs, () => this.#onLapse?.(), true);
  }

  /** Ends the watch for the end of the lease. The lease itself lapses. */
  stop(): void {
    this.#onLapse = undefined;
    this.#cancelLapse?.();
  }
}
