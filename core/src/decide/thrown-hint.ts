/**
 * Thrown hint: the server's hint about the next attempt, read from the error that a client throws:
 * Retry-After in its headers, gRPC pushback in its metadata, or a field of the error.
 */
import type { Outcome } from "./outcome.ts";
import { parseDigits, parsePushback, parseRetryAfter } from "./parse-retry-after.ts";

export type Hint = Pick<Outcome, "retryAfterMs" | "refused">;

type Entry = readonly [name: string, value: unknown];

interface Source {
  readonly headers?: Iterable<Entry> | Readonly<Record<string, unknown>> | null;
}

/** Fields that an error may have. Anything can be thrown, so all types are guesses. */
interface Fields extends Source {
  readonly response?: Source | null;
  /** AWS SDK. */
  readonly $response?: Source | null;
  /** grpc-js. */
  readonly metadata?: { get?(name: string): unknown } | null;
  /** Seconds or an HTTP-date, as in the header. */
  readonly retryAfter?: unknown;
  readonly retryAfterMs?: unknown;
}

/**
 * The hint on a thrown value, if it has one. Pushback takes precedence over ms, and ms over
 * Retry-After; the error's own field takes precedence over the header. Never throws.
 */
export function retryHintOf(error: unknown, now: number): Hint | undefined {
  try {
    const fields: Fields = Object(error);
    const { response, $response, metadata, retryAfter, retryAfterMs } = fields;
    // Most errors have none of these fields.
    const found = fields.headers ?? response ?? $response ?? metadata ?? retryAfter;
    if ((found ?? retryAfterMs) === undefined) return undefined;
    const headers = Object.fromEntries(
      [fields, response, $response]
        .flatMap(entriesOf)
        .map(([name, value]) => [name.toLowerCase(), value]),
    );
    // grpc-js returns a list; other clients return one value or none.
    const pushback = [metadata?.get?.("grpc-retry-pushback-ms")].flat()[0];
    const hint =
      parsePushback(pushback) ??
      parseDigits(retryAfterMs ?? headers["retry-after-ms"], 1) ??
      parseRetryAfter(retryAfter ?? headers["retry-after"], now, headers["date"]);
    if (hint === "refused") return { refused: true };
    return hint === undefined ? undefined : { retryAfterMs: hint };
  } catch {
    // A getter or proxy throws, so there is no hint.

    return undefined;
  }
}

/** The entries of a `Headers`, a Map or a plain object. */
function entriesOf(source: Source | null | undefined): Entry[] {
  const headers = source?.headers ?? [];
  return Symbol.iterator in headers ? [...headers] : Object.entries(headers);
}
