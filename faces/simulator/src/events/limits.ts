/** Limits: what a run may grow to, so that a mistyped scenario ends in a sentence, not in a full machine. */
import { RedriveError } from "@redrive/core";

/** Calls, requests or pending events at once: somewhat above 1 GB in all. */
const MAX_ROWS = 8_388_608;

/** No run has more events: enough for an hour of 10 000 calls a second, which takes minutes. */
export const MAX_EVENTS = 400_000_000;

/** Throws `INVALID_ARGUMENT` if a run has more than `most` of something. */
export function assertMost(count: number, most: number, what: string): void {
  if (count <= most) return;
  throw new RedriveError("INVALID_ARGUMENT", `the scenario is too large: over ${most} ${what}`);
}

/** The same numbers in twice the room, for arrays that grow. */
export function twice<T extends Int32Array | Float64Array>(column: T): T {
  const { length } = column;
  assertMost(2 * length, MAX_ROWS, "calls or events at once");
  const larger = new (column.constructor as new (length: number) => T)(2 * length);
  larger.set(column);
  return larger;
}
