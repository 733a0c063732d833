/**
 * Engine time: an anchor plus what has passed on the monotonic clock, so that a jump of the wall
 * clock moves nothing: no lease lapses, no task runs early, none is put off. The anchor is taken
 * anew every ten seconds to follow the wall's small drifts. Never backwards.
 */
import type { Clock } from "@redrive/core";

/** How often the anchor is taken anew. */
export const ANCHOR_INTERVAL_MS = 10_000;

/** What rounding can make engine time trail by; more is drift, and followed at leisure. */
const MAX_TRAIL_MS = 2;

/** The wall being further off than this has jumped; less is drift, and followed. */
const MAX_DRIFT_MS = 1000;

export class EngineTime {
  readonly #clock: Clock;
  #anchorAt: number;
  #anchorMs: number;

  /** `latestAt`: the highest instant stored; the engine never lives before it. */
  constructor(clock: Clock, latestAt: number) {
    this.#clock = clock;
    this.#anchorAt = Math.max(clock.now(), latestAt);
    this.#anchorMs = clock.monotonicMs();
  }

  /** Epoch ms, whole. */
  now(): number {
    const now = this.#anchorAt + Math.floor(this.#clock.monotonicMs() - this.#anchorMs);
    if (now - this.#anchorAt >= ANCHOR_INTERVAL_MS) this.#retake(now);
    return now;
  }

  /** How long until that instant, not rounded; 0 if it has come. */
  msUntil(at: number): number {
    this.#align();
    const sinceMs = this.#clock.monotonicMs() - this.#anchorMs;
    return Math.max(0, at - this.#anchorAt - sinceMs);
  }

  /** How far the wall is ahead of engine time. */
  skewMs(): number {
    return this.#clock.now() - this.now();
  }

  /**
   * The anchor was a whole millisecond of a wall that stood somewhere within it, so engine time may
   * trail by up to one. Seen from a later instant the wall shows it, and is caught up with.
   */
  #align(): void {
    const now = this.now();
    const behindMs = Math.floor(this.#clock.now()) - now;
    if (behindMs <= 0 || behindMs > MAX_TRAIL_MS) return;
    this.#anchorMs = this.#clock.monotonicMs();
    this.#anchorAt = now + behindMs;
  }

  #retake(now: number): void {
    const driftMs = this.#clock.now() - now;
    this.#anchorMs = this.#clock.monotonicMs();
    this.#anchorAt = driftMs > 0 && driftMs <= MAX_DRIFT_MS ? now + driftMs : now;
  }
}
