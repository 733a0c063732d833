/** Tests of the header `Idempotency-Key`: quoted strings by RFC 9651, bare keys, and everything else. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseKeyHeader } from "./idempotency-key.ts";

test.each([
  ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324", true],
  ["8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324", false],
  ['  "a b"  ', "a b", true],
  ['"a\\"b\\\\c"', 'a"b\\c', true],
  ['"a";v=1; w="x;y"; z', "a", true],
  ['"a,b"', "a,b", true],
  ["order:17/a=b,c", "order:17/a=b,c", false],
])("%s is the key %s", (value, key, isQuoted) => {
  expect(parseKeyHeader(value)).toEqual({ key, isQuoted });
});

test.each([
  ["nothing", ""],
  ["spaces", "   "],
  ["an empty string", '""'],
  ["no end quote", '"a'],
  ["no first quote", 'a"'],
  ["a wrong escape", '"a\\b"'],
  ["two strings", '"a", "b"'],
  ["two bare keys", "a, b"],
  ["text after the string", '"a" b'],
  ["a wrong parameter", '"a";V'],
  ["a space in a bare key", "a b"],
  ["a character that is not ASCII", "ключ"],
  ["a character that is not ASCII, in quotes", '"ключ"'],
  ["a control character", "a\u0007b"],
])("refuses %s", (_, value) => {
  expect(parseKeyHeader(value)).toBeUndefined();
});

test("reads every string that a client has quoted", () => {
  const printable = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
  });
  fc.assert(
    fc.property(printable, (key) => {
      const quoted = `"${key.replace(/["\\]/g, "\\$&")}"`;
      expect(parseKeyHeader(quoted)).toEqual({ key, isQuoted: true });
    }),
  );
});

test("never takes long, whatever is sent", () => {
  for (const value of ['"'.repeat(8000), `"${"\\".repeat(8000)}`, `"a"${";a".repeat(4000)}=`]) {
    expect(parseKeyHeader(value)).toBeUndefined();
  }
});
