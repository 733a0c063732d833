/**
 * Response: the stored part of a target's response: allowlisted headers and the start of the body.
 * Nothing else is stored.
 */
import { util } from "undici";
import type { Headers } from "../model/task.ts";
import { isHarmlessHeader } from "../model/task.ts";

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

// Redact: removes known secrets from a response before it is stored. A target that echoes our
// Authorization header must not put it into our log.
//
// All strings here are latin1: one character per byte, whatever the bytes mean.

const MASK = "***";

/** Shorter values occur in any text: masking them would hide the response, not the secret. */
const MIN_SECRET_LENGTH = 4;

/** The part of a request that may hold secrets. */
export interface SecretRequest {
  /**
   * Values of headers that are not harmless must not be stored, even if the target sends them back.
   */
  readonly headers: Headers;
  /** More values that must not be stored. */
  readonly secrets?: readonly string[];
}

/** Values that must not be stored if the target sends them back. */
export function secretsOf({ headers, secrets = NONE }: SecretRequest): readonly string[] {
  const found = Object.entries(headers).filter(([name, value]) => mayBeSecret(name, value));
  return found.length === 0 ? secrets : [...secrets, ...found.map(([, value]) => value)];
}

const NONE: readonly string[] = [];

/** A header with such a name is a secret, however short its value. */
const CREDENTIALS = /auth|cookie|key|pass|secret|session|sign|token/i;

/** Shorter values of other headers ("prod", "true") are ordinary words of any response. */
const LIKELY_SECRET = 8;

function mayBeSecret(name: string, value: string): boolean {
  return !isHarmlessHeader(name) && (value.length >= LIKELY_SECRET || CREDENTIALS.test(name));
}

/** All variants of the secrets to search for: as sent, without the scheme, and escaped for JSON. */
export function secretVariants(secrets: readonly string[]): readonly string[] {
  if (secrets.length === 0) return secrets;
  const variants = new Set<string>();
  for (const secret of secrets) {
    const credentials = /^[\w-]+ +(\S.*)$/.exec(secret)?.[1] ?? secret;
    for (const text of [secret, credentials]) {
      if (SAME_IN_ANY_FORM.test(text)) variants.add(text);
      else for (const form of formsOf(text)) variants.add(form);
    }
  }
  const long = [...variants].filter((variant) => variant.length >= MIN_SECRET_LENGTH);
  // Longest first, so that masking a short variant leaves no part of a longer one.
  return long.sort((one, other) => other.length - one.length);
}

/** ASCII without control characters, quotes and backslashes: nearly all secrets. */
const SAME_IN_ANY_FORM = /^[ !#-[\]-~]*$/;

/** As sent, and escaped for JSON, both as bytes. */
function formsOf(text: string): readonly string[] {
  return [text, inJson(text)].flatMap(bytesOf);
}

/** Masks every variant in the text. `isCut`: the text may end in the middle of a variant. */
export function redact(text: string, variants: readonly string[], isCut: boolean): string {
  let masked = text;
  for (const variant of variants) masked = masked.replaceAll(variant, MASK);
  if (!isCut) return masked;
  const cut = Math.max(0, ...variants.map((variant) => cutLength(masked, variant)));
  return cut === 0 ? masked : masked.slice(0, -cut) + MASK;
}

/** How many characters at the end of the text are the start of the variant. */
function cutLength(text: string, variant: string): number {
  for (let length = variant.length - 1; length >= MIN_SECRET_LENGTH; length--) {
    if (text.endsWith(variant.slice(0, length))) return length;
  }
  return 0;
}

function inJson(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** As UTF-8, and as the latin1 in which headers are sent. */
function bytesOf(text: string): readonly string[] {
  return [Buffer.from(text).toString("latin1"), Buffer.from(text, "latin1").toString("latin1")];
}
