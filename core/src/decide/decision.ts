/**
 * Decision: the possible decisions about a call, as plain values. The library awaits them, the service
 * writes them to a row, and the simulator puts them on its event queue.
 */

import type { StopReason } from "../errors/stop-reason.ts";

/** The state a task ends in. */
export type EndStatus = "SUCCEEDED" | "EXHAUSTED" | "CANCELLED";

/** Which guard holds an attempt. */
export type HoldReason =
  | "circuit-open"
  | "retry-budget"
  | "retry-after"
  | "rate"
  | "pause"
  | "throttle"
  | "concurrency";

/** Where a wait comes from: the policy's own curve, or the server's hint. */
export type DelaySource = "policy" | "retry-after";

export interface RetryDecision {
  readonly kind: "retry";
  /** How long to wait before the next attempt; whole ms. */
  readonly delayMs: number;
  /** The policy's own wait without any hint: the next call's `previousDelayMs`. */
  readonly ownDelayMs: number;
  readonly source: DelaySource;
}

/** A gate is closed and the caller is patient: wait without using an attempt, then check again. */
export interface HoldDecision {
  readonly kind: "hold";
  readonly by: HoldReason;
  /**
   * Epoch ms; never earlier than the policy's own wait. Infinity: until something changes (a slot
   * becomes free, a person resumes the destination).
   */
  readonly until: number;
  /** As in a retry: the policy's own wait. */
  readonly ownDelayMs: number;
}

export interface StopDecision {
  readonly kind: "stop";
  readonly status: EndStatus;
  readonly reason: StopReason;
  /** The guard that held the call; only with the reason `held`. */
  readonly by?: HoldReason;
}

export type Decision = RetryDecision | HoldDecision | StopDecision;
