/**
 * JSON body: turns the bytes of a request into a value that is safe to inspect: UTF-8 without a
 * byte order mark, bounded in depth and width, and without names that reach a prototype. If a name
 * occurs twice, the last value counts, and the checked value is the stored one.
 */
import { isUtf8 } from "node:buffer";
import { isObject } from "@redrive/core";
import { RawJson } from "../../intake/task-body.ts";
import { serviceError } from "../../model/errors.ts";
import { isBlank, type JsonScanResult, MAX_KEYS, scanJson } from "./json-scan.ts";

/** Fields of an object that is validated field by field. A task's `json` may have more. */
const MAX_FIELDS = 200;

const JSON_KEY = Buffer.from("json");

/** Parses a complete JSON text. */
export function parseJson(bytes: Buffer): unknown {
  const { maxKeys } = checkAndScan(bytes);
  if (maxKeys > MAX_FIELDS) throw tooWide(MAX_FIELDS);
  return parseSafely(bytes.toString("utf8"));
}

/** Parses a task like `parseJson`, but keeps the value of `json` as the received bytes. */
export function parseTaskJson(bytes: Buffer): unknown {
  const scanned = checkAndScan(bytes);
  if (scanned.maxKeys > MAX_KEYS) throw tooWide(MAX_KEYS);
  const value = parseSafely(bytes.toString("utf8"));
  if (!isObject(value)) return value;
  if (scanned.maxKeys > MAX_FIELDS) assertNarrow(value);
  return Object.hasOwn(value, "json") ? { ...value, json: rawJson(bytes, scanned) } : value;
}

/** The elements of a JSON array, each as bytes. */
export function arrayElements(bytes: Buffer): readonly Buffer[] {
  const text = bytes.toString("utf8", 0, 64).trimStart();
  if (!text.startsWith("[")) throw malformed("a batch must be a JSON array of tasks, or NDJSON");
  const { values, end } = checkAndScan(bytes);
  if (end < 0 || !isBlank(bytes, end, bytes.length)) throw malformed("the body is not valid JSON");
  return values.map(({ start, end }) => bytes.subarray(start, end));
}

/** The lines of NDJSON, without blank lines. */
export function ndjsonLines(bytes: Buffer): readonly Buffer[] {
  const lines: Buffer[] = [];
  for (let start = 0; start < bytes.length; ) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline < 0 ? bytes.length : newline;
    if (bytes.toString("latin1", start, end).trim() !== "") lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return lines;
}

function checkAndScan(bytes: Buffer): JsonScanResult {
  if (bytes.length === 0) throw malformed("the request has no body: JSON is required");
  if (!isUtf8(bytes)) throw malformed("JSON must be UTF-8");
  if (bytes[0] === 0xef && bytes[1] === 0xbb) throw malformed("JSON must have no byte order mark");
  return scanJson(bytes);
}

function parseSafely(text: string): unknown {
  const value = parseText(text);
  // Only a text that contains such a name or an escape can have a dangerous name.
  if (/__proto__|constructor|\\u/.test(text)) assertNoPrototype(value);
  return value;
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw malformed("the body is not valid JSON", error);
  }
}

function assertNoPrototype(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Object.hasOwn(value, "__proto__")) throw malformed('unknown field "__proto__"');
  const { constructor: named } = value as { constructor?: unknown };
  if (Object.hasOwn(value, "constructor") && isObject(named) && Object.hasOwn(named, "prototype")) {
    throw malformed('unknown field "constructor.prototype"');
  }
  for (const part of Object.values(value)) assertNoPrototype(part);
}

/** Everything but the payload is validated field by field, and every field costs time. */
function assertNarrow({ json: _, ...rest }: Readonly<Record<string, unknown>>): void {
  const isWide = (value: unknown): boolean =>
    isObject(value) &&
    (Object.keys(value).length > MAX_FIELDS || Object.values(value).some(isWide));
  if (isWide(rest)) throw tooWide(MAX_FIELDS);
}

function rawJson(bytes: Buffer, { values }: JsonScanResult): RawJson {
  const named = values.flatMap(({ key, start, end }) => (key ? [{ key, start, end }] : []));
  for (const { key } of named) {
    if (bytes.subarray(key.start, key.end).includes(0x5c)) {
      throw malformed("field names must not contain escapes");
    }
  }
  const isJson = ({ key }: (typeof named)[number]) =>
    bytes.subarray(key.start, key.end).equals(JSON_KEY);
  const found = named.findLast(isJson);
  if (found === undefined) throw malformed("the body is not valid JSON");
  return new RawJson(trimmed(bytes, found.start, found.end));
}

/**
 * Without surrounding blanks, and as a copy: the request's buffer would live as long as the task.
 */
function trimmed(bytes: Buffer, start: number, end: number): Uint8Array {
  let first = start;
  let last = end;
  while (first < last && (bytes[first] ?? 0) <= 0x20) first++;
  while (last > first && (bytes[last - 1] ?? 0) <= 0x20) last--;
  return Uint8Array.prototype.slice.call(bytes, first, last);
}

function tooWide(max: number): Error {
  return serviceError("INVALID_REQUEST", `an object must have at most ${max} fields`);
}

function malformed(message: string, cause?: unknown): Error {
  return serviceError("INVALID_REQUEST", message, cause);
}
