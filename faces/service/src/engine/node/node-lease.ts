/**
 * Node lease: shows that this node is alive. If the node fails to renew it, it aborts its attempts a
 * tenth of the length before the lease ends, because other nodes may then take them over. Other systems
 * call the length visibility timeout.
 */
import { assertRange, type Cancel, type Clock } from "@redrive/core";
import type { EngineTime } from "../../time/engine-time.ts";

export const DEFAULT_LEASE_MS = 10_000;
export const MIN_LEASE_MS = 1000;
export const MAX_LEASE_MS = 600_000;

const RENEWALS_PER_LEASE = 5;
const MARGIN_SHARE = 0.1;

/**
 * The wall clock went this much further than the monotonic clock, which stops while a machine sleeps.
 * Either the machine slept, or the clock was set.
 */
const MAX_GAP_MS = 500;

export interface NodeLeaseParts {
  readonly clock: Clock;
  readonly time: EngineTime;
  /** No other process uses the store, so the lease cannot be lost. */
  readonly isExclusive: boolean;
  /** 1 second to 10 minutes. Default: 10 seconds. */
  readonly leaseMs?: number | undefined;
}

/** When a renewal was requested. */
export interface LeaseRequest {
  readonly monotonicMs: number;
  readonly wallAt: number;
}

export class NodeLease {
  readonly leaseMs: number;
  readonly renewIntervalMs: number;
  readonly #parts: NodeLeaseParts;
  #requested: LeaseRequest | undefined;
  /** When the node stops using the lease, on the monotonic clock. */
  #usableUntilMs = 0;
  #heldSince = 0;
  #onLapse: (() => void) | undefined;
  #cancelLapse: Cancel | undefined;

  constructor(parts: NodeLeaseParts) {
    const { leaseMs = DEFAULT_LEASE_MS } = parts;
    assertRange("leaseMs", leaseMs, MIN_LEASE_MS, MAX_LEASE_MS);
    this.#parts = parts;
    this.leaseMs = leaseMs;
    this.renewIntervalMs = leaseMs / RENEWALS_PER_LEASE;
  }

  /** As far as the monotonic clock can tell. */
  isHeld(): boolean {
    const { clock, isExclusive } = this.#parts;
    return isExclusive ? this.#requested !== undefined : clock.monotonicMs() < this.#usableUntilMs;
  }

  /**
   * False also if the machine may have slept since the last renewal: the lease may have ended. Nothing
   * new is sent until the next renewal tells.
   */
  isCertain(): boolean {
    if (!this.isHeld()) return false;
    if (this.#parts.isExclusive || this.#requested === undefined) return true;
    const { clock } = this.#parts;
    const wallMs = clock.now() - this.#requested.wallAt;
    return wallMs - (clock.monotonicMs() - this.#requested.monotonicMs) <= MAX_GAP_MS;
  }

  /** Since when the lease is held without a gap. Another node may have taken over older claims. */
  heldSince(): number {
    return this.#heldSince;
  }

  /** Calls `listener` when the lease was not renewed in time, shortly before it ends. */
  onLapse(listener: () => void): void {
    this.#onLapse = listener;
  }

  /** Call before each request to renew the lease, and pass the result to `record`. */
  request(): LeaseRequest {
    const { clock } = this.#parts;
    return { monotonicMs: clock.monotonicMs(), wallAt: clock.now() };
  }

  /**
   * The store has renewed the lease. It counts from the request, so the store never sees it end earlier
   * than this node. `wasLapsed`: it had ended before.
   */
  record(requested: LeaseRequest, wasLapsed: boolean): void {
    const { clock, time, isExclusive } = this.#parts;
    const hadGap = wasLapsed || !this.isHeld();
    this.#requested = requested;
    if (isExclusive) return;
    if (hadGap) this.#heldSince = time.now();
    this.#usableUntilMs = requested.monotonicMs + this.leaseMs * (1 - MARGIN_SHARE);
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
