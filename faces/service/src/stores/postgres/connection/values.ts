/**
 * Values: the values of rows as the driver reads and writes them, texts that PostgreSQL can store, arrays in
 * the binary format, and cursors.
 */

// Cells: the values of rows. The driver passes every value as text, so these parsers make the values
// of the types that our statements return.

export type Cell = string | number | boolean | Uint8Array | null;

/** A parameter of a statement. Texts are made storable; bytes are sent as they are. */
export type Param = Cell | readonly (string | number)[] | undefined;

type Parser = (text: string) => Cell;

/** Numbers of types, from `pg_type`. */
const BOOL = 16;
const BYTEA = 17;
const INT8 = 20;
const INT2 = 21;
const INT4 = 23;
const FLOAT8 = 701;

const PARSERS: ReadonlyMap<number, Parser> = new Map<number, Parser>([
  [BOOL, (text) => text === "t"],
  [BYTEA, bytesOf],
  [INT8, Number],
  [INT2, Number],
  [INT4, Number],
  [FLOAT8, Number],
]);

/** For the driver: the parser of each type. Everything else is text. */
export const CELL_TYPES = {
  getTypeParser(type: number): Parser {
    return PARSERS.get(type) ?? originalText;
  },
};

const BACKSLASH = 0x5c;

/**
 * Bytes in one of PostgreSQL's formats: hexadecimal after a prefix, or the bytes themselves with escapes
 * for some of them, which is shorter for most bodies.
 */
function bytesOf(text: string): Uint8Array {
  if (text.startsWith("\\x")) {
    // A copy: a small buffer is a part of a larger one, which it would keep.
    return new Uint8Array(Buffer.from(text.slice(2), "hex"));
  }
  const bytes = new Uint8Array(text.length);
  Buffer.from(bytes.buffer).write(text, "latin1");
  return text.includes("\\") ? unescaped(bytes) : bytes;
}

/** A backslash is written twice; three octal digits follow it for a byte that is not ASCII, or 0. */
function unescaped(bytes: Uint8Array): Uint8Array {
  let length = 0;
  const digit = (at: number) => (bytes[at] ?? 0) & 7;
  for (let at = 0; at < bytes.length; length++) {
    if (bytes[at] !== BACKSLASH) bytes[length] = bytes[at++] ?? 0;
    else if (bytes[at + 1] === BACKSLASH) {
      bytes[length] = BACKSLASH;
      at += 2;
    } else {
      bytes[length] = digit(at + 1) * 64 + digit(at + 2) * 8 + digit(at + 3);
      at += 4;
    }
  }
  return bytes.slice(0, length);
}

// Stored text: makes every JavaScript string storable. PostgreSQL has no NUL in text, so NUL is
// written as U+0001 and "0", and U+0001 as U+0001 and "1". This keeps the order of texts.
// Half of a surrogate pair is replaced, as in every UTF-8 encoder.

const ESCAPE = "\u0001";

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to escape.
const ESCAPED = /[\0\u0001]/gu;
const HALF_PAIR = /\p{Surrogate}/gu;
/** Escapes in JSON text that the server may not accept. */
const SUSPECT = /\\u(?:000[01]|d[89a-f])/u;

/** The text to store. */
export function storedText(text: string): string {
  if (!text.includes("\0") && !text.includes(ESCAPE)) return text;
  return text.replace(ESCAPED, (one) => `${ESCAPE}${one === ESCAPE ? "1" : "0"}`);
}

/** The text that was stored. */
export function originalText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replaceAll(`${ESCAPE}0`, "\0").replaceAll(`${ESCAPE}1`, ESCAPE);
}

/** JSON in which every text is storable. */
export function storedJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!SUSPECT.test(json)) return json;
  return JSON.stringify(value, (_, one) =>
    typeof one === "string" ? storedText(one).replace(HALF_PAIR, "\uFFFD") : one,
  );
}

/** The value of JSON that the server has made of stored texts. */
export function originalJson<T>(json: string): T {
  if (!json.includes("\\u0001")) return JSON.parse(json) as T;
  return JSON.parse(json, (_, one) => (typeof one === "string" ? originalText(one) : one)) as T;
}

// Binary array: an array parameter in PostgreSQL's binary format. For hundreds of items, both sides
// handle it several times faster than JSON. https://www.postgresql.org/docs/current/protocol.html does
// not describe it: it is what `array_send` of the server writes.

/** Numbers of the types of elements, from `pg_type`. */
const INT8_ELEMENT = 20;
const TEXT = 25;
const BYTEA_ELEMENT = 17;

/** The number of dimensions, whether there are nulls, the type, the number of elements, the first index. */
const HEAD_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;
const TWO_32 = 2 ** 32;

const FIRST_SIZE = 65_536;
/** A larger buffer is not kept for the next array. */
const MAX_KEPT_SIZE = 4_194_304;

let buffer = Buffer.allocUnsafe(FIRST_SIZE);
let length = 0;

/** Throws if a value is not a whole number that a double holds exactly. */
export function int8Array(values: readonly (number | null)[]): Uint8Array {
  begin(INT8_ELEMENT, values.length);
  reserve(values.length * (LENGTH_BYTES + 8));
  for (const value of values) {
    if (value === null) writeLength(NULL_LENGTH);
    else {
      if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a whole number`);
      writeLength(8);
      buffer.writeInt32BE(Math.floor(value / TWO_32), length);
      buffer.writeUInt32BE(value >>> 0, length + 4);
      length += 8;
    }
  }
  return written();
}

/** The texts are made storable. */
export function textArray(values: readonly (string | null)[]): Uint8Array {
  begin(TEXT, values.length);
  for (const value of values) {
    if (value === null) {
      reserve(LENGTH_BYTES);
      writeLength(NULL_LENGTH);
    } else writeText(storedText(value));
  }
  return written();
}

export function byteaArray(values: readonly (Uint8Array | null)[]): Uint8Array {
  begin(BYTEA_ELEMENT, values.length);
  for (const value of values) {
    reserve(LENGTH_BYTES + (value?.length ?? 0));
    writeLength(value?.length ?? NULL_LENGTH);
    if (value === null) continue;
    buffer.set(value, length);
    length += value.length;
  }
  return written();
}

function begin(type: number, count: number): void {
  length = HEAD_BYTES;
  buffer.writeInt32BE(1, 0);
  buffer.writeInt32BE(1, 4);
  buffer.writeInt32BE(type, 8);
  buffer.writeInt32BE(count, 12);
  buffer.writeInt32BE(1, 16);
}

function writeLength(bytes: number): void {
  buffer.writeInt32BE(bytes, length);
  length += LENGTH_BYTES;
}

function writeText(text: string): void {
  // A UTF-16 unit takes at most three bytes in UTF-8.
  reserve(LENGTH_BYTES + 3 * text.length);
  const bytes = buffer.write(text, length + LENGTH_BYTES);
  writeLength(bytes);
  length += bytes;
}

function reserve(bytes: number): void {
  if (length + bytes <= buffer.length) return;
  const larger = Buffer.allocUnsafe(Math.max(buffer.length * 2, length + bytes));
  buffer.copy(larger, 0, 0, length);
  buffer = larger;
}

/** A copy: the buffer is used for the next array. */
function written(): Uint8Array {
  const copy = Buffer.from(buffer.subarray(0, length));
  if (buffer.length > MAX_KEPT_SIZE) buffer = Buffer.allocUnsafe(FIRST_SIZE);
  return copy;
}

// Cursors: positions of several texts, for callers to whom a cursor is opaque.

export function cursorText(cells: readonly Cell[]): string {
  return JSON.stringify(cells);
}

/** Empty at the beginning. */
export function cursorTexts(cursor: string | undefined): readonly string[] {
  return cursor === undefined ? [] : (JSON.parse(cursor) as readonly string[]);
}
