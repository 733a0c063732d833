/**
 * Deliver function: the function through which the engine sends an attempt. In production `deliver/`
 * implements it; the simulation replaces it with a simulated network.
 */
import type { AbortSignalLike } from "@redrive/core";
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { StartedTask } from "../../model/batch.ts";
import type { DeliverySettings } from "../../model/delivery/delivery-settings.ts";

export interface DeliveryLimits {
  /** From start to end. The deliverer enforces it, whatever the target does. */
  readonly attemptTimeoutMs: number;
  readonly connectTimeoutMs: number;
  /** Engine time at the start. */
  readonly now: number;
  /** Aborts the request. */
  readonly signal: AbortSignalLike;
  /** The settings of the destination. */
  readonly delivery: DeliverySettings;
  /**
   * False: the request must not be sent any more. A process that was suspended may continue with its
   * first byte before a timer can abort it.
   */
  readonly mayStart: () => boolean;
  /** The trace context to send; undefined: the deliverer makes one. */
  readonly traceparent: string | undefined;
}

/** Calls `done` exactly once, and never before it returns. */
export type Deliver = (
  task: StartedTask,
  limits: DeliveryLimits,
  done: (result: AttemptResult) => void,
) => void;
