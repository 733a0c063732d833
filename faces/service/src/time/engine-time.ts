/**
 * Engine time: an anchor plus the time that has passed on the monotonic clock. A jump of the wall
 * clock therefore moves nothing: no lease lapses, and no task runs early or late. A new anchor
 * every ten seconds follows the small drift of the wall clock. Engine time never goes backwards.
 */
import type { Clock } from "@redrive/core";

/** How often a new anchor is taken. */
export const ANCHOR_INTERVAL_MS = 10_000;

/** Rounding can delay engine time by at most this much. A larger delay is drift. */
const MAX_TRAIL_MS = 2;

/** A larger difference is a jump of the wall clock; a smaller one is drift, which is followed. */
const MAX_DRIFT_MS = 1000;

export class EngineTime {
  readonly #clock: Clock;
  #anchorAt: number;
  #anchorMs: number;

  /** `latestAt`: the latest stored instant. Engine time never starts before it. */
  constructor(clock: Clock, latestAt: number) {
    this.#clock = clock;
    this.#anchorAt = Math.max(clock.now(), latestAt);
    this.#anchorMs = clock.monotonicMs();
  }

  /** Whole epoch ms. */
  now(): number {
    const now = this.#anchorAt + Math.floor(this.#clock.monotonicMs() - this.#anchorMs);
    if (now - this.#anchorAt >= ANCHOR_INTERVAL_MS) this.#renewAnchor(now);
    return now;
  }

  /** The time until that instant, not rounded; 0 if the instant has passed. */
  msUntil(at: number): number {
    this.#catchUp();
    const sinceMs = this.#clock.monotonicMs() - this.#anchorMs;
    return Math.max(0, at - this.#anchorAt - sinceMs);
  }

  /** How far the wall clock is ahead of engine time. */
  skewMs(): number {
    return this.#clock.now() - this.now();
  }

  /**
   * The wall clock rounds to whole milliseconds, so the anchor may be up to one millisecond late. A
   * later reading of the wall clock reveals the delay, and engine time catches up.
   */
  #catchUp(): void {
    const now = this.now();
    const behindMs = Math.floor(this.#clock.now()) - now;
    if (behindMs <= 0 || behindMs > MAX_TRAIL_MS) return;
    this.#anchorMs = this.#clock.monotonicMs();
    this.#anchorAt = now + behindMs;
  }

  #renewAnchor(now: number): void {
    const driftMs = this.#clock.now() - now;
    this.#anchorMs = this.#clock.monotonicMs();
    this.#anchorAt = driftMs > 0 && driftMs <= MAX_DRIFT_MS ? now + driftMs : now;
  }
}
