/**
 * Retry-After: the wait that the other side asks for, read strictly: a wrong reading either hammers
 * a server that asked for rest or waits for years. What is no legal hint is no hint.
 */
import { parseHttpDate } from "../time/http-date.ts";

/** No hint is longer than this, so that sums with it stay exact whole numbers. */
const MAX_HINT_MS = 10 ** 15;

/**
 * A `Retry-After` header in ms from now: `1*DIGIT` seconds or an HTTP-date, nothing else. The date
 * is read against the answer's own `Date` if that is legal, else against `now`. Several headers
 * (a list, or joined by a comma) contradict each other and count as none.
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
 * gRPC's `grpc-retry-pushback-ms` (gRFC A6): a whole number of ms; a negative or unreadable one
 * means "do not retry".
 */
export function parsePushback(value: unknown): number | "refused" | undefined {
  if (value === null || value === undefined) return undefined;
  return parseDigits(value, 1) ?? "refused";
}

/** `1*DIGIT` of a unit, in ms. A list of one counts as its entry; a longer one has commas. */
export function parseDigits(value: unknown, unitMs: number): number | undefined {
  return /^\d+$/.test(value as string) ? Math.min(Number(value) * unitMs, MAX_HINT_MS) : undefined;
}
