/**
 * Status range: ranges of HTTP statuses. Other systems say "5xx" where a policy lists each status.
 */

/** Every status from `first` to `last`, including both. */
export function statusRange(first: number, last: number): readonly number[] {
  return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
}
