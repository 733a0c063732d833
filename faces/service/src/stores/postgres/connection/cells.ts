/**
 * Cells: the values of rows. The driver passes every value as text, so these parsers make the values
 * of the types that our statements return.
 */
import { originalText } from "./stored-text.ts";

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
