/** Hold message: the last error of a task that a guard held until its time ran out. */
import { type HoldReason, holdDescriptions } from "@redrive/core";

/** A clause: "held by the open circuit until its time was over". */
export function heldText(by: HoldReason): string {
  return `held by ${holdDescriptions[by]} until its time was over`;
}
