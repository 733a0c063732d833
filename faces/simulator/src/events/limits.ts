/**
 * Limits: bounds on the size of a run. A mistyped scenario ends with an error message instead of
 * using up the machine's memory.
 */
import { RedriveError } from "@redrive/core";

/**
 * Calls, requests or pending events at one time. At this bound the arrays use a little over 1 GB.
 */
const MAX_ROWS = 8_388_608;

/**
 * Events in one run: enough for an hour of 10 000 calls a second, which takes minutes to simulate.
 */
export const MAX_EVENTS = 400_000_000;

/** Throws `INVALID_ARGUMENT` if `count` is larger than `max`. */
export function assertAtMost(count: number, max: number, what: string): void {
  if (count <= max) return;
  throw new RedriveError("INVALID_ARGUMENT", `the scenario is too large: over ${max} ${what}`);
}

/** Copies an array to one of twice the length. */
export function doubleLength<T extends Int32Array | Float64Array>(column: T): T {
  const { length } = column;
  assertAtMost(2 * length, MAX_ROWS, "calls or events at once");
  const larger = new (column.constructor as new (length: number) => T)(2 * length);
  larger.set(column);
  return larger;
}
