/**
 * Binary array: an array parameter in PostgreSQL's binary format. For hundreds of items, both sides
 * handle it several times faster than JSON. https://www.postgresql.org/docs/current/protocol.html does
 * not describe it: it is what `array_send` of the server writes.
 */
import { storedText } from "./stored-text.ts";

/** Numbers of the types of elements, from `pg_type`. */
const INT8 = 20;
const TEXT = 25;
const BYTEA = 17;

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
  begin(INT8, values.length);
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
  begin(BYTEA, values.length);
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
