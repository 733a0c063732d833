/**
 * Tests of what may be repeated, and of the key that a policy may require.
 * Tests of the header `Idempotency-Key`: quoted strings by RFC 9651, bare keys, and everything else.
 */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { resolvePolicy } from "./policy.ts";
import { assertKey, isRepeatable, mayHaveTakenEffect, parseKeyHeader } from "./repeatable.ts";

describe("isRepeatable", () => {
  test.each(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"])(
    "%s is, by its definition",
    (method) => {
      expect(isRepeatable({ method })).toBe(true);
    },
  );

  test.each(["POST", "PATCH", "CONNECT", "get", ""])(
    "%j is not, without a key or a declaration",
    (method) => {
      expect(isRepeatable({ method })).toBe(false);
      expect(isRepeatable({ method, idempotencyKey: "k" })).toBe(true);
      expect(isRepeatable({ method, idempotent: true })).toBe(true);
    },
  );

  test.each(["", null])("the key %j does not count", (empty) => {
    const idempotencyKey = empty as string;
    expect(isRepeatable({ method: "POST", idempotencyKey })).toBe(false);
    const policy = resolvePolicy({ requireIdempotencyKey: true });
    expect(() => assertKey(policy, { idempotencyKey })).toThrow("requires an idempotency key");
  });

  test("the caller's declaration wins, and a call without a method is repeatable", () => {
    expect(isRepeatable({ method: "GET", idempotent: false })).toBe(false);
    expect(isRepeatable({ method: "POST", idempotent: false, idempotencyKey: "k" })).toBe(false);
    expect(isRepeatable({})).toBe(true);
  });
});

test("only an error before the first byte certainly had no effect", () => {
  expect(mayHaveTakenEffect({ kind: "error", errorClass: "connect", sent: false })).toBe(false);
  expect(mayHaveTakenEffect({ kind: "error", errorClass: "timeout", sent: true })).toBe(true);
  expect(mayHaveTakenEffect({ kind: "status", status: 503 })).toBe(true);
  expect(mayHaveTakenEffect({ kind: "abandoned" })).toBe(true);
});

describe("assertKey", () => {
  test("refuses a call without the key that its policy requires, and names the policy", () => {
    const policy = resolvePolicy({ policyId: "payment", requireIdempotencyKey: true });
    expect(() => assertKey(policy, {})).toThrow('policy "payment" requires an idempotency key');
    expect(() => assertKey(resolvePolicy({ requireIdempotencyKey: true }), {})).toThrow(
      /^the policy requires/,
    );
    expect(() => assertKey(policy, {})).toThrow(
      expect.objectContaining({ code: "IDEMPOTENCY_KEY_REQUIRED" }),
    );
  });

  test("accepts a call with a key, or if none is required", () => {
    assertKey(resolvePolicy({ requireIdempotencyKey: true }), { idempotencyKey: "k" });
    expect(() => assertKey(resolvePolicy({}), {})).not.toThrow();
  });
});

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
