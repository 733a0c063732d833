/** Held text: what is said about a task that a guard held until its time was over. */
import { type HoldReason, holdWords } from "@redrive/core";

/** A clause: "held by the open circuit until its time was over". */
export function heldText(by: HoldReason): string {
  return `held by ${holdWords[by]} until its time was over`;
}
