/** Tests of what may be repeated, and of the key that a policy may require. */
import { describe, expect, test } from "vitest";
import { resolvePolicy } from "../policy/policy.ts";
import { assertKey, isRepeatable, mayHaveTakenEffect } from "./repeatable.ts";

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
