/**
 * Activity: counts of events in time slots, for the figures and sparklines of the last hour. The
 * service keeps no such history, so the counts begin when the page opens.
 */
import type { EventView } from "../service/client.ts";

export const SLOT_MS = 10_000;
/** One hour. */
export const SLOTS = 360;

export const measures = ["attempts", "retries", "succeeded", "dead"] as const;
export type Measure = (typeof measures)[number];
type Counts = Readonly<Record<Measure, number>>;

const NONE: Counts = { attempts: 0, retries: 0, succeeded: 0, dead: 0 };

export interface Activity {
  /** When the counts begin; epoch ms. */
  readonly sinceAt: number;
  /** Counts by slot number. */
  readonly slots: ReadonlyMap<number, Counts>;
}

export function emptyActivity(sinceAt: number): Activity {
  return { sinceAt, slots: new Map() };
}

export function countEvent(activity: Activity, event: EventView): Activity {
  const counted = measuresOf(event);
  if (counted.length === 0) return activity;
  const slot = Math.floor(event.at / SLOT_MS);
  const counts = { ...(activity.slots.get(slot) ?? NONE) };
  for (const measure of counted) counts[measure]++;
  const slots = new Map(activity.slots).set(slot, counts);
  for (const old of slots.keys()) if (old <= slot - SLOTS) slots.delete(old);
  return { ...activity, slots };
}

function measuresOf({ type, attemptNumber = 1 }: EventView): readonly Measure[] {
  if (type === "attempt.started") return attemptNumber > 1 ? ["attempts", "retries"] : ["attempts"];
  if (type === "task.succeeded") return ["succeeded"];
  return type === "task.exhausted" ? ["dead"] : [];
}

/** The counts of one measure per slot, oldest first, from the start of the counts to now. */
export function seriesOf(
  { slots, sinceAt }: Activity,
  measure: Measure,
  now: number,
): readonly number[] {
  const last = Math.floor(now / SLOT_MS);
  const first = Math.max(last - SLOTS + 1, Math.floor(sinceAt / SLOT_MS));
  return Array.from(
    { length: Math.max(1, last - first + 1) },
    (_, index) => slots.get(first + index)?.[measure] ?? 0,
  );
}
