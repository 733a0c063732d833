/**
 * Response: the stored part of a target's response: allowlisted headers and the start of the body.
 * Nothing else is stored.
 */
import { util } from "undici";
import type { Headers } from "../model/task.ts";
import { redact } from "./redact.ts";

/** Bytes of the body that are stored. */
export const MAX_STORED_BODY = 16_384;

/** Bytes that are read beyond them, so that a secret that crosses the limit is found. */
const BODY_MARGIN = 16_384;

/**
 * Bytes that are read at all. A response up to this length is read to its end, which keeps its
 * connection; a longer one costs the connection. undici's own `dump` has the same limit.
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
  "grpc-encoding",
  "grpc-message",
  "grpc-retry-pushback-ms",
  "grpc-status",
  "location",
  "ratelimit",
  "ratelimit-limit",
  "ratelimit-policy",
  "ratelimit-remaining",
  "ratelimit-reset",
  "retry-after",
  "retry-after-ms",
  "server",
  "set-cookie",
  "stripe-should-retry",
  "x-amz-retry-after",
  "x-ms-retry-after-ms",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-remaining-requests",
  "x-ratelimit-remaining-tokens",
  "x-ratelimit-reset",
  "x-ratelimit-reset-requests",
  "x-ratelimit-reset-tokens",
  "x-should-retry",
]);

export interface ResponseHead {
  readonly status: number;
  /** Allowlisted headers by lower-case name; several headers of one name are joined. */
  readonly headers: Headers;
}

/** Reads the raw headers of undici: alternating names and values. */
export function readHead(status: number, raw: readonly Buffer[]): ResponseHead {
  const headers: Record<string, string> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    // Looks up common names in a table, without converting the bytes to a string.
    const name = util.headerNameToString(raw[index] ?? EMPTY);
    if (!STORED_HEADERS.has(name)) continue;
    const value = (raw[index + 1] ?? EMPTY).toString("latin1");
    addHeader(headers, name, value);
  }
  return { status, headers };
}

/** Adds a header if it is allowlisted. The name is in lower case. */
export function storeHeader(headers: Record<string, string>, name: string, value: string): void {
  if (STORED_HEADERS.has(name)) addHeader(headers, name, value);
}

function addHeader(headers: Record<string, string>, name: string, value: string): void {
  const shown = storedValue(name, value);
  const earlier = headers[name];
  headers[name] = earlier === undefined ? shown : joinValues(earlier, shown);
}

/** The request id that the target returned, if any. */
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

/** Collects the start of a body. */
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
    // A copy: the chunk is a view of the socket's 64 KiB buffer, which is reused.
    const copy = Buffer.from(chunk.length > room ? chunk.subarray(0, room) : chunk);
    this.#chunks.push(copy);
    this.#kept += copy.length;
  }

  /** The stored bytes: at most `MAX_STORED_BODY`, with the secrets masked. */
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
  // A query may contain tokens; the path alone shows where it points.
  const safe = name === "location" ? value.replace(/[?#].*$/s, "") : value;
  return safe.slice(0, MAX_STORED_HEADER);
}

function joinValues(earlier: string, shown: string): string {
  return `${earlier}, ${shown}`.slice(0, MAX_STORED_HEADER);
}
