/** Held text: what is said about a task that a guard held until its time was over. */
import type { HoldReason } from "@redrive/core";

const GUARDS: Readonly<Record<HoldReason, string>> = {
  "circuit-open": "the open circuit",
  "retry-budget": "the empty retry budget",
  "retry-after": "a Retry-After of its destination",
  rate: "the rate limit",
  pause: "a pause",
  throttle: "the throttle",
  concurrency: "the concurrency limit",
};

/** A clause: "held by the open circuit until its time was over". */
export function heldText(by: HoldReason): string {
  return `held by ${GUARDS[by]} until its time was over`;
}
