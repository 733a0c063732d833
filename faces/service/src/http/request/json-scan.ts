/**
 * JSON scan: one look at the bytes of a JSON text before it is parsed, for what a parser does not
 * tell or finds out too late: how deep it is, how wide its objects are, and where the values of the
 * envelope begin and end. It need not know what is legal: the parser judges that.
 */
import { serviceError } from "../../model/errors.ts";

/** Deeper texts parse, but spelling them again ends in a stack overflow. */
export const MAX_DEPTH = 64;
/** Of one object. */
export const MAX_KEYS = 10_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Stands for the commas of an array: no number of them makes it count. */
const ARRAY = Number.NEGATIVE_INFINITY;

export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** A value of the outermost object (then it has a key) or array. */
export interface ScannedValue extends ByteRange {
  readonly key: ByteRange | undefined;
}

/** What the scan found out. */
export interface JsonScanResult {
  /** In order. */
  readonly values: readonly ScannedValue[];
  /** Keys of the maxKeys object. */
  readonly maxKeys: number;
  /** Behind the bracket that closes the outermost; -1: nothing does. */
  readonly end: number;
}

/** Throws `INVALID_REQUEST` for a text that is too deep. */
export function scanJson(bytes: Uint8Array): JsonScanResult {
  const scan = new JsonScan(bytes);
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] === QUOTE) at = scan.text(at);
    else scan.mark(at);
  }
  return scan;
}

class JsonScan implements JsonScanResult {
  readonly values: ScannedValue[] = [];
  maxKeys = 0;
  end = -1;
  readonly #bytes: Uint8Array;
  /** Commas seen in each object that is open; arrays may be as wide as they like. */
  readonly #commas: number[] = [];
  #lastText: ByteRange | undefined;
  #key: ByteRange | undefined;
  #start = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** A text begins; answers where it ends. */
  text(at: number): number {
    const end = endOfText(this.#bytes, at);
    this.#lastText = { start: at + 1, end };
    return end;
  }

  /** A byte outside of texts. */
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

/** The index of the quote that ends the text. */
function endOfText(bytes: Uint8Array, quote: number): number {
  for (let at = quote + 1; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) at++;
  }
  return bytes.length;
}

export function isBlank(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((bytes[at] ?? 0) > 0x20) return false;
  return true;
}

function tooDeep(): Error {
  return serviceError("INVALID_REQUEST", `JSON must be nested at most ${MAX_DEPTH} deep`);
}
