/**
 * Own shortage: an attempt for which this node lacked files, memory or ports. It is no outcome of the
 * target: the claim is returned, the attempt does not count, and no guard learns of it. The node then
 * starts nothing for a moment, and runs fewer attempts at once until attempts go well again.
 */
import type { AttemptResult } from "../../deliver/attempt-result.ts";
import type { EngineEvents } from "../events/engine-events.ts";
import type { Schedule } from "../schedule/scheduler.ts";
import type { HeldClaim } from "./held-claims.ts";

/**
 * An address that this machine can never reach has the same error code as a lack of ports. After this
 * many holds without any success, about half a minute, the error counts as an outcome of the target.
 */
const MAX_ORIGIN_HOLDS = 10;

/** Records whether the attempt lacked something. True if it counts as not sent. */
export function recordShortage(
  { scheduler: { slots }, events }: { readonly scheduler: Schedule; readonly events: EngineEvents },
  { origin = "" }: HeldClaim,
  { shortage, errorMessage, outcome }: AttemptResult,
  now: number,
): boolean {
  if (shortage === null) {
    if (outcome.kind !== "aborted") slots.recordNoShortage(origin);
    return false;
  }
  if (shortage === "origin" && slots.shortagesOf(origin) >= MAX_ORIGIN_HOLDS) return false;
  const isNew = slots.recordShortage(shortage, origin, now);
  if (isNew) events.emit(now, { type: "node.shortage", reason: errorMessage ?? shortage });
  return true;
}
