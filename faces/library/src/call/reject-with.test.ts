/** Tests of rejectWith: which error the caller gets when a call is given up. */
import { RedriveError } from "@redrive/core";
import { expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../testing.ts";
import { retry } from "./retry.ts";
import { rejectionOf, statusError, untilAborted, world } from "./world.testing.ts";

const LAST = {
  maxAttempts: 2,
  initialDelayMs: 10,
  jitterType: "NONE",
  rejectWith: "last-error",
} as const;

test("last-error: the error of the last attempt, even after retries", async () => {
  const { clock, random, onEvent, events } = world();
  const error = statusError(503);
  const { fn } = flaky(clock, [{ throws: statusError(500) }, { throws: error }]);
  const call = retry(fn, { clock, random, onEvent, ...LAST });
  expect(await rejectionOf(clock.run(call))).toBe(error);
  expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "attempts", attempts: 2, error });
});

test("redrive-error (default): one error with every attempt", async () => {
  const { clock, random } = world();
  const { fn } = flaky(clock, [{ throws: statusError(503) }]);
  for (const rejectWith of ["redrive-error", undefined] as const) {
    const call = retry(fn, { clock, random, ...LAST, rejectWith });
    expect(await rejectionOf(clock.run(call))).toMatchObject({ code: "GAVE_UP" });
  }
});

test("last-error: a timeout is the error of its attempt", async () => {
  const { clock, random } = world();
  const call = retry(untilAborted, { clock, random, ...LAST, attemptTimeoutMs: 100 });
  expect(await rejectionOf(clock.run(call))).toMatchObject({ code: "ATTEMPT_TIMEOUT" });
});

test("last-error: a call without attempts rejects with our error", async () => {
  const { clock, random } = world();
  const breaker = { minCalls: 1, failureRate: 0.1 };
  const shop = destination("shop", { clock, random, policy: { maxAttempts: 1 }, breaker });
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)))));
  const error = await rejectionOf(shop.run(() => 1, { rejectWith: "last-error" }));
  expect(error).toBeInstanceOf(RedriveError);
  expect(error).toMatchObject({ code: "GAVE_UP", reason: "circuit-open" });
});

test("last-error: a value that was classified as a failure is not an error to reject with", async () => {
  const { clock, random } = world();
  const call = retry(() => "pending", { clock, random, ...LAST, classify: () => "transient" });
  expect(await rejectionOf(clock.run(call))).toMatchObject({ code: "GAVE_UP", reason: "attempts" });
});

test("other values are refused", async () => {
  const rejectWith = "first-error" as "last-error";
  expect(await rejectionOf(retry(() => 1, { rejectWith }))).toMatchObject({
    message: 'rejectWith must be one of redrive-error, last-error, got "first-error"',
  });
});
