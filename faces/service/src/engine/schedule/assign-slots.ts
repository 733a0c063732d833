/** Assign slots: gives the slots that a claim has taken to the tasks that it found. */
import type { ClaimResult } from "../../model/batch.ts";
import type { AttemptSlots } from "./attempt-slots.ts";
import { originOf } from "./origin.ts";
import type { PlannedClaim } from "./planned-claim.ts";

/** Returns the origin of each task that may start; undefined if its origin has no slot. */
export function assignSlots(
  slots: AttemptSlots,
  { lane, permits, origin: reserved }: PlannedClaim,
  { tasks }: ClaimResult,
  now: number,
): readonly (string | undefined)[] {
  const { tenantId } = lane.destination;
  let fullOrigin: string | undefined;
  const origins = tasks.map(({ targetUrl }) => {
    const origin = originOf(targetUrl);
    lane.origin = origin;
    if (slots.assign({ tenantId, origin }, reserved, now)) return origin;
    fullOrigin = origin;
    return undefined;
  });
  // The next task is one that could not start.
  lane.origin = fullOrigin ?? lane.origin;
  const unused = permits.length - tasks.length;
  if (unused > 0) slots.release(tenantId, reserved, unused);
  return origins;
}
