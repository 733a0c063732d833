/**
 * Response outcome: converts a simulated server's response, or its silence, to core's `Outcome`.
 */
import { type Outcome, SUCCESS, statusOutcome } from "@redrive/core";
import { FAILED, OK, THROTTLED } from "./server.ts";

export const TIMED_OUT: Outcome = { kind: "error", errorClass: "timeout", sent: true };
const FAILURE: Outcome = statusOutcome(500);

export function responseOutcome(answer: number, retryAfterMs: number | undefined): Outcome {
  if (answer === OK) return SUCCESS;
  if (answer === FAILED) return FAILURE;
  return statusOutcome(answer === THROTTLED ? 429 : 503, retryAfterMs);
}
