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

/** Hexadecimal after a prefix, which is PostgreSQL's default. */
function bytesOf(text: string): Uint8Array {
  if (!text.startsWith("\\x")) throw new Error("the server's setting bytea_output must be hex");
  // A copy: a small buffer is a part of a larger one, which it would keep.
  return new Uint8Array(Buffer.from(text.slice(2), "hex"));
}
