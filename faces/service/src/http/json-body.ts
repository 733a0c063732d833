/**
 * JSON body: turns the bytes of a request into a value that is safe to inspect: UTF-8 without a
 * byte order mark, bounded in depth and width, and without names that reach a prototype. If a name
 * occurs twice, the last value counts, and the checked value is the stored one.
 */
import { isUtf8 } from "node:buffer";
import { isObject } from "@redrive/core";
import { RawJson } from "../intake/task-input.ts";
import { serviceError } from "../model/errors.ts";

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

// JSON scan: one pass over the bytes of a JSON text before it is parsed. It finds what a parser
// does not report, or reports too late: the depth, the number of keys per object, and the byte
// ranges of the outermost values. It does not validate; the parser does.

/** Deeper texts parse, but serializing them again overflows the stack. */
const MAX_DEPTH = 64;
/** Keys of one object. */
const MAX_KEYS = 10_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** The other bytes outside of strings say nothing about the structure. */
const STRUCTURE: ReadonlySet<number | undefined> = new Set([
  ...[COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT],
]);

/** Initial comma count of an array: adding to it never yields a finite number. */
const ARRAY = Number.NEGATIVE_INFINITY;

interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** A value of the outermost object (with a key) or array (without one). */
interface ScannedValue extends ByteRange {
  readonly key: ByteRange | undefined;
}

/** The result of a scan. */
interface JsonScanResult {
  /** In order of appearance. */
  readonly values: readonly ScannedValue[];
  /** Number of keys of the object with the most keys. */
  readonly maxKeys: number;
  /** Index after the bracket that closes the outermost value; -1 if there is none. */
  readonly end: number;
}

/** Throws `INVALID_REQUEST` for a text that is nested too deep. */
function scanJson(bytes: Uint8Array): JsonScanResult {
  const scan = new JsonScan(bytes);
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] === QUOTE) at = scan.text(at);
    else if (STRUCTURE.has(bytes[at])) scan.mark(at);
  }
  return scan;
}

class JsonScan implements JsonScanResult {
  readonly values: ScannedValue[] = [];
  maxKeys = 0;
  end = -1;
  readonly #bytes: Uint8Array;
  /** Commas seen in each open object; arrays have no limit. */
  readonly #commas: number[] = [];
  #lastText: ByteRange | undefined;
  #key: ByteRange | undefined;
  #start = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Called at the start of a string; returns the index of its end. */
  text(at: number): number {
    const end = endOfText(this.#bytes, at);
    this.#lastText = { start: at + 1, end };
    return end;
  }

  /** Called for a byte outside of strings. */
  mark(at: number): void {
    const byte = this.#bytes[at];
    if (byte === OPEN_OBJECT) this.#open(at, 0);
    else if (byte === OPEN_ARRAY) this.#open(at, ARRAY);
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) this.#close(at);
    else if (byte === COMMA) this.#comma(at);
    else if (byte === COLON && this.#commas.length === 1) {
      this.#key = this.#lastText;
      this.#start = at + 1;
    }
  }

  #comma(at: number): void {
    this.#endValue(at);
    this.#commas.push((this.#commas.pop() ?? ARRAY) + 1);
  }

  #open(at: number, commas: number): void {
    if (this.#commas.push(commas) > MAX_DEPTH) throw tooDeep();
    if (this.#commas.length === 1) this.#start = at + 1;
  }

  #close(at: number): void {
    this.#endValue(at);
    this.maxKeys = Math.max(this.maxKeys, (this.#commas.pop() ?? ARRAY) + 1);
    if (this.#commas.length === 0 && this.end < 0) this.end = at + 1;
  }

  #endValue(at: number): void {
    if (this.#commas.length !== 1) return;
    const value = { key: this.#key, start: this.#start, end: at };
    if (this.values.length > 0 || !isBlank(this.#bytes, value.start, at)) this.values.push(value);
    this.#key = undefined;
    this.#start = at + 1;
  }
}

/** The index of the quote that ends the string. */
function endOfText(bytes: Uint8Array, quote: number): number {
  for (let at = quote + 1; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return bytes.length;
}

function isBlank(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((bytes[at] ?? 0) > 0x20) return false;
  return true;
}

function tooDeep(): Error {
  return serviceError("INVALID_REQUEST", `JSON must be nested at most ${MAX_DEPTH} levels deep`);
}
