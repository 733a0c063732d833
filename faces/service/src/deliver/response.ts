/**
 * Response: what is kept of a target's answer: a few headers by allowlist, and the beginning of the
 * body. Everything else is the target's to send and nobody's to store.
 */
import { util } from "undici";
import type { Headers } from "../model/task.ts";
import { redact } from "./redact.ts";

/** Bytes of the body that are stored. */
export const MAX_STORED_BODY = 16_384;

/** Bytes that are read past them, so that a secret across the edge is found whole. */
const BODY_MARGIN = 16_384;

/**
 * Bytes that are read at all. Up to here an answer is read to its end, which keeps its connection;
 * a longer one costs the connection. undici's own `dump` draws the line at the same length.
 */
export const MAX_READ_BODY = 131_072;

/** Characters of one header that are stored. */
const MAX_STORED_HEADER = 512;

const REQUEST_IDS = [
  "x-request-id",
  "request-id",
  "x-correlation-id",
  "x-amzn-requestid",
  "x-amz-request-id",
  "cf-ray",
];

const STORED_HEADERS = new Set([
  ...REQUEST_IDS,
  "allow",
  "content-encoding",
  "content-length",
  "content-type",
  "date",
  "location",
  "ratelimit",
  "ratelimit-limit",
  "ratelimit-policy",
  "ratelimit-remaining",
  "ratelimit-reset",
  "retry-after",
  "server",
  "set-cookie",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "x-should-retry",
]);

export interface ResponseHead {
  readonly status: number;
  /** Allowlisted headers by lower-case name, several of one name joined. */
  readonly headers: Headers;
  /** All `Retry-After` headers, unjoined: core ignores several. */
  readonly retryAfter: readonly string[];
}

/** Reads the raw headers of undici: name, value, name, value. */
export function readHead(status: number, raw: readonly Buffer[]): ResponseHead {
  const headers: Record<string, string> = {};
  const retryAfter: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    // Finds the usual names in a table, without making a text of the bytes.
    const name = util.headerNameToString(raw[index] ?? EMPTY);
    if (!STORED_HEADERS.has(name)) continue;
    const value = (raw[index + 1] ?? EMPTY).toString("latin1");
    if (name === "retry-after") retryAfter.push(value);
    const shown = storedValue(name, value);
    const earlier = headers[name];
    headers[name] = earlier === undefined ? shown : joinValues(earlier, shown);
  }
  return { status, headers, retryAfter };
}

/** The id that the target gave its side of the request, if it told. */
export function requestIdOf(headers: Headers): string | null {
  for (const name of REQUEST_IDS) if (headers[name] !== undefined) return headers[name];
  return null;
}

export function redactHeaders(headers: Headers, variants: readonly string[]): Headers {
  if (variants.length === 0) return headers;
  const entries = Object.entries(headers).map(([name, value]) => {
    return [name, redact(value, variants, value.length >= MAX_STORED_HEADER)];
  });
  return Object.fromEntries(entries);
}

/** The beginning of a body, as it comes in. */
export class BodyCapture {
  // Mutable state.
  readonly #chunks: Buffer[] = [];
  #kept = 0;
  /** Bytes seen so far. */
  length = 0;

  add(chunk: Buffer): void {
    this.length += chunk.length;
    const room = MAX_STORED_BODY + BODY_MARGIN - this.#kept;
    if (room <= 0) return;
    // A copy: the chunk is a window on the socket's buffer, which is 64 KiB and reused.
    const copy = Buffer.from(chunk.length > room ? chunk.subarray(0, room) : chunk);
    this.#chunks.push(copy);
    this.#kept += copy.length;
  }

  /** What is stored: at most `BODY_KEPT` bytes, with the secrets masked. */
  stored(variants: readonly string[], isComplete: boolean): Uint8Array {
    const [first = EMPTY] = this.#chunks;
    const bytes = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : first;
    if (variants.length === 0) return bytes.subarray(0, MAX_STORED_BODY);
    const isCut = !isComplete || this.length > this.#kept;
    const text = redact(bytes.toString("latin1"), variants, isCut);
    return Buffer.from(text.slice(0, MAX_STORED_BODY), "latin1");
  }
}

const EMPTY = Buffer.alloc(0);

function storedValue(name: string, value: string): string {
  if (name === "set-cookie") return "***";
  // A query may hold tokens, and the path is enough to see where it points.
  const safe = name === "location" ? value.replace(/[?#].*$/s, "") : value;
  return safe.slice(0, MAX_STORED_HEADER);
}

function joinValues(earlier: string, shown: string): string {
  return `${earlier}, ${shown}`.slice(0, MAX_STORED_HEADER);
}
