/** Tests of create requests: which key counts, and how long the wait is. */
import { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { asTaskError, preferredWaitSeconds, readTaskInput } from "./create-routes.ts";

describe("the key", () => {
  it("comes from the header or the field, without quotes and blanks", () => {
    expect(readTaskInput({ targetUrl: "x" }, ' "abc" ')).toEqual({
      targetUrl: "x",
      idempotencyKey: "abc",
    });
    expect(readTaskInput({ idempotencyKey: "abc" }, '"abc"')).toEqual({ idempotencyKey: "abc" });
    expect(readTaskInput({ a: 1 }, undefined)).toEqual({ a: 1 });
    expect(() => readTaskInput({ idempotencyKey: "a" }, "b")).toThrow(/differ/);
  });

  it("leaves a body that is not an object to the validation of the intake", () => {
    expect(readTaskInput(null, "k")).toBeNull();
    expect(readTaskInput({ idempotencyKey: 5 }, undefined)).toEqual({ idempotencyKey: 5 });
    expect(readTaskInput({ idempotencyKey: 5 }, "k")).toEqual({ idempotencyKey: 5 });
  });
});

it.each([
  [undefined, 0],
  ["wait=5", 5],
  ["respond-async, wait=10", 10],
  ['wait="3"', 3],
  ["wait=100000", 25],
  ["wait=-1", 0],
  ["await=5", 0],
])("Prefer: %s waits %i s", (prefer, seconds) => {
  expect(preferredWaitSeconds(prefer)).toBe(seconds);
});

it("an invalid field of the policy is reported as a field of the task", () => {
  const bad = new DocumentError("INVALID_POLICY", [
    { field: "maxAttempts", value: 0, message: "m" },
  ]);
  expect(asTaskError(bad)).toMatchObject({ problems: [{ field: "policy.maxAttempts" }] });
  expect(asTaskError(5)).toBe(5);
});
