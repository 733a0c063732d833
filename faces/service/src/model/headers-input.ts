/**
 * Headers input: converts the headers of a task from the forms that programs use (`Headers`, `Map`,
 * lists of pairs) to a plain object. Such objects have no fields of their own, so a copy or JSON of
 * them would lose every header. No message quotes a value, because it may be a secret.
 */
import { DocumentError, isObject } from "@redrive/core";
import type { Headers } from "./task.ts";
import { MAX_HEADERS } from "./task-headers.ts";

/** An object of strings, a `Headers`, a `Map`, or any iterable of `[name, value]` pairs. */
export type HeadersInput = Headers | Iterable<readonly [string, string]>;

/** The input with headers that are an object, unless they have none of the accepted forms. */
export function withPlainHeaders<T extends { readonly headers?: HeadersInput }>(
  input: T,
): T & { readonly headers?: Headers } {
  const headers: unknown = isObject(input) ? input.headers : undefined;
  const plain = isIterable(headers) ? { ...input, headers: headersFrom(headers) } : input;
  return plain as T & { readonly headers?: Headers };
}

function isIterable(value: unknown): value is Iterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.iterator in value;
}

function headersFrom(pairs: Iterable<unknown>): Headers {
  const headers = new Map<string, string>();
  for (const pair of pairs) {
    const [name, value] = Array.isArray(pair) && pair.length === 2 ? pair : [];
    if (typeof name !== "string" || typeof value !== "string") {
      throw refused(`headers must be [name, value] pairs of strings, got ${shapeOf(pair)}`);
    }
    if (headers.has(name)) throw refused(`header ${JSON.stringify(name)} is given twice`);
    headers.set(name, value);
    // An endless iterable must end.
    if (headers.size > MAX_HEADERS) throw refused(`headers must be at most ${MAX_HEADERS}`);
  }
  return Object.fromEntries(headers);
}

/** The types of a value, without its content: `[string, number]`. */
function shapeOf(value: unknown): string {
  if (!Array.isArray(value)) return value === null ? "null" : typeof value;
  return `[${value.slice(0, 4).map(shapeOf).join(", ")}]`;
}

function refused(message: string): Error {
  return new DocumentError("INVALID_ARGUMENT", [{ field: "headers", value: undefined, message }]);
}
