/** Messages of the service in the words of the command line. */
import { RedriveError } from "@redrive/core";
import { expect, test } from "vitest";
import { flagNamesIn, withFlagNames } from "./flag-names.ts";

const FLAGS = { idempotencyKey: "--key", method: "--method", policyId: "--policy" };

test.each([
  ['method must be a token, got "method"', '--method must be a token, got "method"'],
  ["the policy requires an idempotencyKey", "the policy requires an --key"],
  ['idempotencyKey: bad; method: "a \\" method"', '--key: bad; --method: "a \\" method"'],
  ["the method stays in a sentence", "the method stays in a sentence"],
  ["constructor and toString stay", "constructor and toString stay"],
])("%s", (message, expected) => {
  expect(flagNamesIn(message, FLAGS)).toBe(expected);
});

test("keeps the code and the cause of an error", async () => {
  const cause = new RedriveError("UNKNOWN_POLICY" as never, "policyId is unknown");
  const thrown = await withFlagNames(FLAGS, () => Promise.reject(cause)).catch((error) => error);
  expect([thrown.code, thrown.message, thrown.cause]).toEqual([
    "UNKNOWN_POLICY",
    "--policy is unknown",
    cause,
  ]);
});

test("passes other errors on", async () => {
  const other = new TypeError("fetch failed");
  await expect(withFlagNames(FLAGS, () => Promise.reject(other))).rejects.toBe(other);
});
