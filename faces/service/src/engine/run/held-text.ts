/** Held text: what is said about a task that a guard held until its time was over. */
import { type HoldReason, holdDescriptions } from "@redrive/core";

/** A clause: "held by the open circuit until its time was over". */
export function heldText(by: HoldReason): string {
  return `held by ${holdDescriptions[by]} until its time was over`;
}
