/**
 * Delivery: how the engine has an attempt carried out. A capability, so that the simulation can
 * stand in for the network; in production it is `deliver/`.
 */
import type { AbortSignalLike } from "@redrive/core";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { StartedTask } from "../../model/batch.ts";

export interface DeliveryLimits {
  /** Wall to wall; the deliverer keeps it whatever the target does. */
  readonly attemptTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** Engine time at the start. */
  readonly now: number;
  /** Ends the attempt on the wire; its result is then not asked for. */
  readonly signal: AbortSignalLike;
}

/** Calls `done` exactly once, never before it returns. */
export type Deliver = (
  task: StartedTask,
  limits: DeliveryLimits,
  done: (result: AttemptResult) => void,
) => void;
