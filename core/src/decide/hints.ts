/**
 * Hints: what a server says about the next attempt, read by one function for every face, from the
 * headers of a response and from the error that a client throws. The parsers are strict, because a
 * wrong value either overloads the server or makes the client wait for years. An illegal hint is ignored.
 */
import { parseHttpDate } from "../time/http-date.ts";
import type { Outcome } from "./outcome.ts";

export type Hint = Pick<Outcome, "retryAfterMs" | "refused">;

/** Reads a header by its lower-case name: a value, a list of values, or nothing. */
export type ReadHeader = (name: string) => unknown;

/** Maximum of a hint, so sums with it stay exact integers. */
const MAX_HINT_MS = 10 ** 15;

const MS_HEADERS = ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];

/**
 * The hint in the headers of a response. A refusal (`x-should-retry`, Stripe's own, a failure that was
 * stored for its key) takes precedence, then gRPC pushback, a wait in ms (OpenAI, Azure, AWS), Retry-After and, only for the statuses 429 and
 * 503, the end of an exhausted quota.
 */
export function headerHint(
  read: ReadHeader,
  status: number | undefined,
  now: number,
): Hint | undefined {
  const refuses = (name: string) => read(`${name}-should-retry`) === "false";
  // A server of idempotency keys has stored this failure, and sends it to every repetition.
  const isReplay = Number(status) >= 500 && read("idempotent-replayed") === "true";
  const asked =
    isReplay || refuses("x") || refuses("stripe")
      ? "refused"
      : (parsePushback(read(PUSHBACK)) ??
        MS_HEADERS.map((name) => parseDigits(read(name), 1)).find(isNumber) ??
        parseRetryAfter(read("retry-after"), now, read("date")) ??
        (status === 429 || status === 503 ? quotaResetMs(read, now) : undefined));
  if (asked === "refused") return { refused: true };
  return isNumber(asked) ? { retryAfterMs: asked } : undefined;
}

const PUSHBACK = "grpc-retry-pushback-ms";

const isNumber = (value: unknown): value is number => typeof value === "number";

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
function parseDigits(value: unknown, unitMs: number): number | undefined {
  return /^\d+$/.test(value as string) ? Math.min(Number(value) * unitMs, MAX_HINT_MS) : undefined;
}

/** Headers with the end of a quota: of an early IETF draft, of GitHub and others, and of OpenAI. */
const RESETS = [
  "ratelimit-reset",
  "x-ratelimit-reset",
  "x-ratelimit-reset-requests",
  "x-ratelimit-reset-tokens",
];

/**
 * When the last of the exhausted quotas is full again, in ms from now. The header with `remaining` in its
 * name says how much is left. An item of `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) has both.
 */
function quotaResetMs(read: ReadHeader, now: number): number | undefined {
  const isUsedUp = (name: string) => !(Number(read(name.replace("reset", "remaining"))) > 0);
  const items = String(read("ratelimit")).match(/;\s*r=0;\s*t=\d+/g) ?? [];
  const values = [
    ...items.map((item) => item.replace(/.*=/, "")),
    ...RESETS.filter(isUsedUp).map(read),
  ];
  const resets = values.map((value) => parseReset(String(value), now)).filter(isNumber);
  return resets.length > 0 ? Math.max(...resets) : undefined;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

const RESET = /^((\d+(\.\d+)?)(ms|[smh]))+$|^\d+(\.\d+)?$/;

/** Seconds from now, epoch seconds or ms (no wait lasts 30 years), or a duration such as `6m0s`. */
function parseReset(text: string, now: number): number | undefined {
  if (!RESET.test(text)) return undefined;
  const parts = text.match(/[\d.]+[a-z]*/g) ?? [];
  const msOf = (part: string) =>
    Number.parseFloat(part) * (UNITS[part.replace(/[\d.]+/, "") || "s"] as number);
  const ms = parts.reduce((sum, part) => sum + msOf(part), 0);
  // A number of seconds was multiplied by 1000, also if it was meant as ms.
  const fromNowMs = ms < 1e12 ? ms : (ms < 1e15 ? ms : ms / 1000) - now;
  return Math.min(Math.max(0, Math.ceil(fromNowMs)), MAX_HINT_MS);
}

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
 * The hint on a thrown value, if it has one. The error's own field takes precedence over its headers.
 * `status`: of the response that the error stands for. Never throws.
 */
export function retryHintOf(
  error: unknown,
  now: number,
  status: number | undefined,
): Hint | undefined {
  try {
    const fields: Fields = Object(error);
    const { response, $response, metadata, retryAfter, retryAfterMs } = fields;
    // Most errors have none of these fields.
    const found = fields.headers ?? response ?? $response ?? metadata ?? retryAfter;
    if ((found ?? retryAfterMs) === undefined) return undefined;
    const headers: Record<string, unknown> = Object.fromEntries(
      [fields, response, $response]
        .flatMap(entriesOf)
        .map(([name, value]) => [name.toLowerCase(), value]),
    );
    const own: Record<string, unknown> = {
      // grpc-js returns a list; other clients return one value or none.
      [PUSHBACK]: [metadata?.get?.(PUSHBACK)].flat()[0],
      "retry-after-ms": retryAfterMs,
      "retry-after": retryAfter,
    };
    return headerHint((name) => own[name] ?? headers[name], status, now);
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
