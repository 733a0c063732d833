/**
 * Fields: the values of rows as JSON, and back. A table of fields lists the fields of a row once: it
 * gives the order in which they are written, and it checks what is read.
 */
import { isObject, quote, RedriveError } from "@redrive/core";

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

export interface Field<Value> {
  encode(value: Value): Json;
  /** Throws `INVALID_IMPORT` with the path of the field. */
  decode(json: unknown, path: string): Value;
}

export type Fields<Row> = { readonly [Name in keyof Row]-?: Field<Row[Name]> };

/** A value that is the same in JSON. */
function plain<Value extends Json>(
  wanted: string,
  is: (json: unknown) => json is Value,
): Field<Value> {
  return {
    encode: (value) => value,
    decode(json, path) {
      if (is(json)) return json;
      throw invalid(`${path} must be ${wanted}, got ${quote(json)}`);
    },
  };
}

function invalid(message: string): RedriveError {
  return new RedriveError("INVALID_IMPORT", message);
}

const isText = (json: unknown): json is string => typeof json === "string";

export const text: Field<string> = plain("text", isText);

/** Stores join names with line breaks. */
export const name: Field<string> = plain(
  "text without line breaks",
  (json): json is string => isText(json) && !json.includes("\n"),
);

/** A JSON number would lose digits beyond this. */
export const whole: Field<number> = plain(
  "a whole number from 0",
  (json): json is number => Number.isSafeInteger(json) && (json as number) >= 0,
);

export const positive: Field<number> = plain(
  "a whole number from 1",
  (json): json is number => Number.isSafeInteger(json) && (json as number) >= 1,
);

export const decimal: Field<number> = plain("a number", (json): json is number =>
  Number.isFinite(json),
);

export const boolean: Field<boolean> = plain(
  "true or false",
  (json): json is boolean => typeof json === "boolean",
);

export const texts: Field<Readonly<Record<string, string>>> = plain(
  "an object of texts",
  (json): json is Record<string, string> => isObject(json) && Object.values(json).every(isText),
);

export function choice<Value extends string>(...values: readonly Value[]): Field<Value> {
  return plain(`one of ${values.join(", ")}`, (json): json is Value =>
    (values as readonly unknown[]).includes(json),
  );
}

/** In Base64. */
export const bytes: Field<Uint8Array> = {
  encode: (value) => Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64"),
  decode(json, path) {
    const found = Buffer.from(text.decode(json, path), "base64");
    // Node skips characters that are not Base64.
    if (found.toString("base64") === json) return new Uint8Array(found);
    throw invalid(`${path} must be Base64, got ${quote(json)}`);
  },
};

export function orNull<Value>(field: Field<Value>): Field<Value | null> {
  return {
    encode: (value) => (value === null ? null : field.encode(value)),
    decode: (json, path) => (json === null ? null : field.decode(json, path)),
  };
}

export function list<Value>(field: Field<Value>): Field<readonly Value[]> {
  return {
    encode: (values) => values.map((value) => field.encode(value)),
    decode(json, path) {
      if (!Array.isArray(json)) throw invalid(`${path} must be a list, got ${quote(json)}`);
      return json.map((one, at) => field.decode(one, `${path}[${at}]`));
    },
  };
}

export function object<Row extends object>(fields: Fields<Row>): Field<Row> {
  const names = Object.keys(fields) as (keyof Row & string)[];
  return {
    encode: (row) =>
      Object.fromEntries(names.map((one) => [one, fields[one].encode(row[one])])) as Json,
    decode(json, path) {
      if (!isObject(json)) throw invalid(`${path || "a row"} must be an object`);
      const unknown = Object.keys(json).find((one) => !Object.hasOwn(fields, one));
      const at = (one: string) => (path === "" ? one : `${path}.${one}`);
      if (unknown !== undefined) throw invalid(`${at(unknown)} is an unknown field`);
      const entries = names.map((one) => [one, fields[one].decode(json[one], at(one))]);
      return Object.fromEntries(entries) as Row;
    },
  };
}
