/**
 * Status range: whole ranges of HTTP statuses, because other systems speak of "5xx" where a policy
 * lists each status by itself.
 */

/** Every status from `first` to `last`, both included. */
export function statusRange(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}
