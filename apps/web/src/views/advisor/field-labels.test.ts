/** Tests that the changes of an answer read as a sentence. */
import { expect, test } from "vitest";
import { changesText } from "./field-labels.ts";

test("says what an answer sets, and what it removes", () => {
  const changes = { maxAttempts: 1, jitterType: undefined, initialDelayMs: undefined };
  expect(changesText(changes)).toBe("sets attempts to 1; removes the jitter, the first wait");
  expect(changesText({ requireIdempotencyKey: true })).toBe("sets idempotency key to required");
  expect(changesText({ retryableStatusCodes: [], retryableErrors: ["connect", "dns"] })).toBe(
    "sets retried statuses to none, retried errors to connect, dns",
  );
  expect(changesText({})).toBe("");
});
