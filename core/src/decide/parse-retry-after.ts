/**
 * Parse Retry-After: parses the wait that a server asks for. It is strict, because a wrong value
 * either overloads the server or makes the client wait for years. An illegal hint is ignored.
 */
import { parseHttpDate } from "../time/http-date.ts";

/** Maximum of a hint, so sums with it stay exact integers. */
const MAX_HINT_MS = 10 ** 15;

/**
 * A `Retry-After` header in ms from now: `1*DIGIT` seconds or an HTTP-date, nothing else. A date is
 * relative to the response's own `Date` if that is legal, otherwise to `now`. Several headers (a list,
 * or joined by a comma) contradict each other and are ignored.
 */
export function parseRetryAfter(
  value: unknown,
  now: number,
  dateHeader?: unknown,
): number | undefined {
  const at = parseHttpDate(value, now);
  if (at === undefined) return parseDigits(value, 1000);
  return Math.max(0, at - (parseHttpDate(dateHeader, now) ?? now));
}

/**
 * gRPC's `grpc-retry-pushback-ms` (gRFC A6): an integer in ms. A negative or unreadable value means
 * "do not retry".
 */
export function parsePushback(value: unknown): number | "refused" | undefined {
  if (value === null || value === undefined) return undefined;
  return parseDigits(value, 1) ?? "refused";
}

/** `1*DIGIT` of a unit, in ms. A list with one entry counts as that entry; a longer list has commas. */
export function parseDigits(value: unknown, unitMs: number): number | undefined {
  return /^\d+$/.test(value as string) ? Math.min(Number(value) * unitMs, MAX_HINT_MS) : undefined;
}
