/** Created task: which key counts, and how long is waited. */
import { DocumentError } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { inputOf, inTask, preferredWait } from "./create-request.ts";

describe("the key", () => {
  it("comes from the header or the field, without quotes and blanks", () => {
    expect(inputOf({ targetUrl: "x" }, ' "abc" ')).toEqual({
      targetUrl: "x",
      idempotencyKey: "abc",
    });
    expect(inputOf({ idempotencyKey: "abc" }, '"abc"')).toEqual({ idempotencyKey: "abc" });
    expect(inputOf({ a: 1 }, undefined)).toEqual({ a: 1 });
    expect(() => inputOf({ idempotencyKey: "a" }, "b")).toThrow(/differ/);
  });

  it("leaves what is no object to the check of all inputs", () => {
    expect(inputOf(null, "k")).toBeNull();
    expect(inputOf({ idempotencyKey: 5 }, undefined)).toEqual({ idempotencyKey: 5 });
    expect(inputOf({ idempotencyKey: 5 }, "k")).toEqual({ idempotencyKey: 5 });
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
  expect(preferredWait(prefer)).toBe(seconds);
});

it("a bad field of the policy is told as the task's", () => {
  const bad = new DocumentError("INVALID_POLICY", [
    { field: "maxAttempts", value: 0, message: "m" },
  ]);
  expect(inTask(bad)).toMatchObject({ problems: [{ field: "policy.maxAttempts" }] });
  expect(inTask(5)).toBe(5);
});
