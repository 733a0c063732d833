/**
 * Decision: what can be decided about a call, as plain values. A face carries these out: the
 * library awaits them, the service writes them to a row, the simulator pushes them on a queue.
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

/** Where a wait came from: the policy's own curve, or the other side's hint. */
export type DelaySource = "policy" | "retry-after";

export interface RetryDecision {
  readonly kind: "retry";
  /** How long to wait before the next attempt; whole ms. */
  readonly delayMs: number;
  /** The policy's own wait, without any hint: the next call's `previousDelayMs`. */
  readonly ownDelayMs: number;
  readonly source: DelaySource;
}

/** A gate is shut and the caller is patient: wait without using an attempt, then ask again. */
export interface HoldDecision {
  readonly kind: "hold";
  readonly by: HoldReason;
  /**
   * Epoch ms; never before the wait the policy itself asks for. Infinity: until something changes
   * (a slot becomes free, a person resumes the destination).
   */
  readonly until: number;
  /** As in a retry: what the policy itself would have waited. */
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
