/**
 * Stored response: a response as bytes for the store, and back. The head is a line of JSON, and the body
 * follows byte for byte.
 */
import type { PlainResponse } from "../serve/interceptor.ts";

/** A response that was too large has a status only. */
export interface TooLarge {
  readonly status: number;
  readonly isTooLarge: true;
}

interface Head {
  readonly version: 1;
  readonly status: number;
  readonly headers?: PlainResponse["headers"];
}

/** Belong to the connection or to the moment, not to the response (RFC 9110 section 7.6.1). */
const CONNECTION_HEADERS =
  /^(connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|date)$/i;

const LINE_END = 10;

const DECODER = /* @__PURE__ */ new TextDecoder();

/** The head of a response as it is stored. */
export function storedHeaders(
  headers: PlainResponse["headers"],
  omitted: readonly string[],
): PlainResponse["headers"] {
  return headers.filter(
    ([name]) => !CONNECTION_HEADERS.test(name) && !omitted.includes(name.toLowerCase()),
  );
}

export function encodeResponse({ status, headers, body }: PlainResponse): Uint8Array {
  return encode({ version: 1, status, headers }, body);
}

export function encodeTooLarge(status: number): Uint8Array {
  return encode({ version: 1, status }, new Uint8Array());
}

function encode(head: Head, body: Uint8Array): Uint8Array {
  // Header values are Latin-1, which JSON keeps. JSON never contains a line end.
  const line = new TextEncoder().encode(`${JSON.stringify(head)}\n`);
  const bytes = new Uint8Array(line.length + body.length);
  bytes.set(line);
  bytes.set(body, line.length);
  return bytes;
}

export function decodeResponse(bytes: Uint8Array): PlainResponse | TooLarge {
  const end = bytes.indexOf(LINE_END);
  const head = JSON.parse(DECODER.decode(bytes.subarray(0, end))) as Head;
  const { status, headers } = head;
  if (headers === undefined) return { status, isTooLarge: true };
  return { status, headers, body: bytes.subarray(end + 1) };
}
