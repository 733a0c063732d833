/**
 * Retry-After: the wait that the other side asks for, read strictly: a wrong reading either hammers
 * a server that asked for rest or waits for years. What is no legal hint is no hint.
 */
import { parseHttpDate } from "./http-date.ts";

/** No hint is longer than this, so that sums with it stay exact whole numbers. */
const LONGEST_HINT_MS = 1_000_000_000_000_000;

/**
 * A `Retry-After` header in ms from now: `1*DIGIT` seconds or an HTTP-date, nothing else. The date
 * is read against the answer's own `Date` if that is legal, else against `now`. Several headers
 * (a list, or joined by a comma) contradict each other and count as none.
 */
export function parseRetryAfter(
  value: string | readonly string[] | null | undefined,
  now: number,
  dateHeader?: string | null,
): number | undefined {
  const text = typeof value === "string" ? value : onlyOne(value ?? []);
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, LONGEST_HINT_MS);
  const at = parseHttpDate(text, now);
  if (at === undefined) return undefined;
  const answeredAt = dateHeader ? (parseHttpDate(dateHeader, now) ?? now) : now;
  return Math.max(0, at - answeredAt);
}

function onlyOne(values: readonly string[]): string | undefined {
  return values.length === 1 ? values[0] : undefined;
}

/**
 * gRPC's `grpc-retry-pushback-ms` (gRFC A6): a whole number of ms; a negative or unreadable one
 * means "do not retry".
 */
export function parsePushback(value: string | null | undefined): number | "refused" | undefined {
  if (value === null || value === undefined) return undefined;
  return /^\d+$/.test(value) ? Math.min(Number(value), LONGEST_HINT_MS) : "refused";
}
