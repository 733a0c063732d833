/**
 * Task headers: validates the headers of a new task, so that a header that cannot be sent is
 * rejected now and not at the attempt. No message quotes a value, because it may be a secret.
 */
import { type FieldProblem, quote } from "@redrive/core";
import { HOP_HEADER } from "./loop-detection.ts";
import { isPlainObject } from "./plain-object.ts";

export const MAX_HEADERS = 100;
const MAX_BYTES = 16_384;
const NAME = /^[!#$%&'*+.^_`|~\w-]{1,256}$/;
/** Latin1 without control characters except tab: what an HTTP/1.1 field can hold. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Headers of the connection (RFC 9110 7.6.1), those that the client writes, and Redrive's own. */
const RESERVED =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|host|content-length|proxy-.*|redrive-.*|webhook-(id|timestamp|signature))$/;

/** Headers that hold no secrets. All others are masked in responses and encrypted in the store. */
const HARMLESS = new Set([
  "accept",
  "accept-language",
  "cache-control",
  "content-language",
  "content-type",
  "date",
  "if-match",
  "if-none-match",
  HOP_HEADER,
  "traceparent",
  "user-agent",
  "x-request-id",
]);

export function isHarmlessHeader(name: string): boolean {
  return HARMLESS.has(name.toLowerCase());
}

/** All problems of a task's headers. */
export function headerProblems(headers: unknown): readonly FieldProblem[] {
  if (headers === undefined) return [];
  if (!isPlainObject(headers)) return [wrong("headers", `${WANTED}, got ${kindOf(headers)}`)];
  const entries = Object.entries(headers);
  if (entries.length > MAX_HEADERS) {
    return [wrong("headers", `headers must be at most ${MAX_HEADERS}, got ${entries.length}`)];
  }
  const problems = entries.flatMap(([name, value]) => headerProblem(name, value) ?? []);
  return problems.length > 0 ? problems : togetherProblems(entries as [string, string][]);
}

const WANTED = "headers must be an object of strings, a Headers, a Map or pairs";

function kindOf(value: unknown): string {
  if (value === null || typeof value !== "object") return value === null ? "null" : typeof value;
  return Array.isArray(value) ? "a list" : String(value.constructor?.name ?? "an object");
}

function headerProblem(name: string, value: unknown): FieldProblem | undefined {
  const field = `headers.${name.slice(0, 64)}`;
  if (!NAME.test(name)) return wrong(field, `header ${quote(name)} is not a valid header name`);
  if (RESERVED.test(name.toLowerCase())) {
    return wrong(field, `header ${quote(name)} is set by the service, not by a task`);
  }
  if (typeof value === "string" && VALUE.test(value)) return undefined;
  return wrong(field, `header ${quote(name)} must be a string of visible latin1 characters`);
}

/** Problems of the headers as a whole. */
function togetherProblems(
  entries: readonly (readonly [string, string])[],
): readonly FieldProblem[] {
  let bytes = 0;
  const names = new Set<string>();
  for (const [name, value] of entries) {
    bytes += name.length + value.length;
    const lower = name.toLowerCase();
    if (names.has(lower)) return [wrong(`headers.${name}`, `header ${quote(name)} is given twice`)];
    names.add(lower);
  }
  return bytes <= MAX_BYTES
    ? []
    : [wrong("headers", `headers must be at most ${MAX_BYTES} bytes in total, got ${bytes}`)];
}

function wrong(field: string, message: string): FieldProblem {
  return { field, value: undefined, message };
}
