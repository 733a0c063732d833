/** Tests of shouldRetry: the caller decides on errors that would be retried. */
import { RedriveError } from "@redrive/core";
import { expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../testing.ts";
import { retry } from "./retry.ts";
import { rejectionOf, statusError, world } from "./world.testing.ts";

const FAST = { maxAttempts: 3, initialDelayMs: 10, jitterType: "NONE" } as const;

function asking(decision: boolean) {
  const asked: unknown[] = [];
  const shouldRetry = (error: unknown, context: { attempt: number }) => {
    asked.push([error, context.attempt]);
    return decision;
  };
  return { asked, shouldRetry };
}

test("false ends the call with the error itself", async () => {
  const { clock, random, onEvent, events } = world();
  const error = statusError(503);
  const { asked, shouldRetry } = asking(false);
  const { fn, calledAt } = flaky(clock, [{ throws: error }]);
  const call = retry(fn, { clock, random, onEvent, shouldRetry, ...FAST });
  expect(await rejectionOf(clock.run(call))).toBe(error);
  expect(calledAt).toHaveLength(1);
  expect(asked).toEqual([[error, 1]]);
  expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "not-retryable", attempts: 1 });
});

test("true retries, and it is not called for the last attempt", async () => {
  const { clock, random } = world();
  const error = statusError(503);
  const { asked, shouldRetry } = asking(true);
  const { fn } = flaky(clock, [{ throws: error }]);
  const call = retry(fn, { clock, random, shouldRetry, ...FAST });
  expect(await rejectionOf(clock.run(call))).toMatchObject({ reason: "attempts" });
  expect(asked).toEqual([
    [error, 1],
    [error, 2],
  ]);
});

test("after a retry, false rejects with an error that has every attempt", async () => {
  const { clock, random } = world();
  const shouldRetry = (_: unknown, { attempt }: { attempt: number }) => attempt < 2;
  const { fn } = flaky(clock, [{ throws: statusError(503) }]);
  const error = await rejectionOf(clock.run(retry(fn, { clock, random, shouldRetry, ...FAST })));
  expect(error).toMatchObject({ code: "GAVE_UP", reason: "not-retryable" });
  expect((error as RedriveError).attempts).toHaveLength(2);
});

test.each([
  ["a terminal error", { throws: statusError(404) }],
  ["a mistake in a program", { throws: new TypeError("x is not a function") }],
  ["a value", { returns: 1 }],
])("is not called for %s", async (_, step) => {
  const { clock, random } = world();
  const { asked, shouldRetry } = asking(true);
  const { fn, calledAt } = flaky(clock, [step]);
  await clock.run(retry(fn, { clock, random, shouldRetry, ...FAST })).catch(() => undefined);
  expect(asked).toEqual([]);
  expect(calledAt).toHaveLength(1);
});

test("is called after classify, and not for errors that classify declares terminal", async () => {
  const { clock, random } = world();
  const { asked, shouldRetry } = asking(false);
  const { fn } = flaky(clock, [{ throws: statusError(503) }]);
  const options = { clock, random, shouldRetry, ...FAST };
  await rejectionOf(clock.run(retry(fn, { ...options, classify: () => "terminal" })));
  expect(asked).toHaveLength(0);
  const { fn: fault, calledAt } = flaky(clock, [{ throws: new TypeError("fetch of old") }]);
  await rejectionOf(clock.run(retry(fault, { ...options, classify: () => "transient" })));
  expect(asked).toHaveLength(1);
  expect(calledAt).toHaveLength(1);
});

test.each([
  ["a promise", () => Promise.resolve(true), "{}"],
  ["nothing", () => undefined, "undefined"],
  ["a number", () => 1, "1"],
])("%s instead of a boolean is refused", async (_, shouldRetry, quoted) => {
  const { clock, random } = world();
  const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
  const options = { clock, random, shouldRetry: shouldRetry as unknown as () => boolean, ...FAST };
  const error = await rejectionOf(clock.run(retry(fn, options)));
  expect(error).toBeInstanceOf(RedriveError);
  expect(error).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: `shouldRetry must return one of true, false, got ${quoted}`,
  });
  expect(calledAt).toHaveLength(1);
});

test("an error that it throws ends the call", async () => {
  const { clock, random } = world();
  const broken = new Error("broken predicate");
  const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
  const shouldRetry = () => {
    throw broken;
  };
  expect(await rejectionOf(clock.run(retry(fn, { clock, random, shouldRetry, ...FAST })))).toBe(
    broken,
  );
  expect(calledAt).toHaveLength(1);
});

test("an abort inside of it ends the call with the signal's reason", async () => {
  const { clock, random, onEvent, events } = world();
  const controller = new AbortController();
  const shouldRetry = () => {
    controller.abort(new Error("left"));
    return true;
  };
  const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
  const { signal } = controller;
  const call = retry(fn, { clock, random, onEvent, shouldRetry, signal, ...FAST });
  expect(await rejectionOf(clock.run(call))).toMatchObject({ message: "left" });
  await clock.advance(1000);
  expect(calledAt).toHaveLength(1);
  expect(events.map(({ type }) => type)).toEqual(["give-up"]);
});

test("an error that it refuses counts as terminal for the breaker", async () => {
  const { clock, random } = world();
  const breaker = { minCalls: 1, failureRate: 0.1 };
  const shop = destination("shop", { clock, random, policy: FAST, breaker });
  const shouldRetry = () => false;
  await rejectionOf(clock.run(shop.run(() => Promise.reject(new Error("plain")), { shouldRetry })));
  expect(shop.stats().breaker).toBe("CLOSED");
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(503)), { shouldRetry })));
  expect(shop.stats().breaker).toBe("OPEN");
});
