/** Tests of NonRetryableError: the operation ends its own call. */
import { RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../testing.ts";
import { NonRetryableError } from "./call.ts";
import { retry } from "./retry.ts";
import { rejectionOf, statusError, untilAborted, world } from "./world.testing.ts";

const FAST = { maxAttempts: 5, initialDelayMs: 10, jitterType: "NONE" } as const;

describe("throw new NonRetryableError(error)", () => {
  test("ends the call with the error itself, although the error is retryable", async () => {
    const { clock, random, onEvent, events } = world();
    const error = statusError(503);
    const { fn, calledAt } = flaky(clock, [{ throws: new NonRetryableError(error) }]);
    expect(await rejectionOf(clock.run(retry(fn, { clock, random, onEvent, ...FAST })))).toBe(
      error,
    );
    expect(calledAt).toHaveLength(1);
    expect(events).toMatchObject([
      { type: "attempt-failed", verdict: "terminal", status: 503, error },
      { type: "give-up", reason: "not-retryable", attempts: 1, error },
    ]);
  });

  test("ends the call with the error itself after retries too", async () => {
    const { clock, random } = world();
    const error = Object.freeze(new Error("gone"));
    const steps = [{ throws: statusError(503) }, { throws: new NonRetryableError(error) }];
    const { fn, calledAt } = flaky(clock, steps);
    expect(await rejectionOf(clock.run(retry(fn, { clock, random, ...FAST })))).toBe(error);
    expect(calledAt).toHaveLength(2);
  });

  test("is not classified", async () => {
    const { clock, random } = world();
    let asked = 0;
    const classify = () => {
      asked++;
      return "transient" as const;
    };
    const { fn, calledAt } = flaky(clock, [{ throws: new NonRetryableError("enough") }]);
    const call = retry(fn, { clock, random, classify, shouldRetry: () => true, ...FAST });
    expect(await rejectionOf(clock.run(call))).toMatchObject({ message: "enough" });
    expect([asked, calledAt.length]).toEqual([0, 1]);
  });

  test.each([
    ["a text", "enough", "enough"],
    ["a number", 5, "5"],
    ["nothing", undefined, ""],
  ])("converts %s to an Error", async (_, given, message) => {
    const error = await rejectionOf(
      retry(() => Promise.reject(new NonRetryableError(given)), FAST),
    );
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(NonRetryableError);
    expect(error).toMatchObject({ message });
  });

  test("has the message and the cause if no call catches it", () => {
    const error = new TypeError("not a number");
    expect(new NonRetryableError(error)).toMatchObject({
      name: "NonRetryableError",
      message: "not a number",
      cause: error,
    });
  });
});

describe("under a destination", () => {
  function shopOf(extra: object = {}) {
    const { clock, random } = world();
    const breaker = { minCalls: 1, failureRate: 0.1 };
    return { clock, shop: destination("shop", { clock, random, policy: FAST, breaker, ...extra }) };
  }

  test.each([
    ["a 503 is a failure", statusError(503), "OPEN"],
    ["a 404 is a success", statusError(404), "CLOSED"],
    ["a plain error says nothing", new Error("plain"), "CLOSED"],
  ])("counts as a terminal error for the breaker: %s", async (_, error, state) => {
    const { clock, shop } = shopOf();
    const call = shop.run(() => Promise.reject(new NonRetryableError(error)));
    expect(await rejectionOf(clock.run(call))).toBe(error);
    expect(shop.stats()).toMatchObject({ breaker: state, firsts: 1, retries: 0, failures: 1 });
  });

  test("runs no fallback: fallbacks are for calls that were given up", async () => {
    const { clock, shop } = shopOf({ fallback: () => "substitute" });
    const call = shop.run(() => Promise.reject(new NonRetryableError("no")));
    expect(await rejectionOf(clock.run(call))).toMatchObject({ message: "no" });
  });

  test("ends a hedged call at once and aborts the other copy", async () => {
    const { clock, shop } = shopOf({ hedge: { after: 50, max: 1 }, idempotent: true });
    const error = statusError(503);
    const signals: AbortSignal[] = [];
    const call = shop.run((context) => {
      signals.push(context.signal);
      return context.copy === 0
        ? untilAborted(context)
        : Promise.reject(new NonRetryableError(error));
    });
    const startAt = clock.now();
    expect(await rejectionOf(clock.run(call))).toBe(error);
    expect(clock.now() - startAt).toBe(50);
    expect(signals).toHaveLength(2);
    expect(signals[0]?.aborted).toBe(true);
  });
});

describe("in a nested call", () => {
  test.each(["yield", "retry"] as const)(
    "ends the outer call as well: nested %s",
    async (nested) => {
      const { clock, random } = world();
      const error = statusError(503);
      const { fn, calledAt } = flaky(clock, [{ throws: new NonRetryableError(error) }]);
      const options = { clock, random, ...FAST };
      const call = retry(
        ({ signal }) =>
          retry(({ signal: inner }) => retry(fn, { ...options, nested, signal: inner }), {
            ...options,
            signal,
          }),
        options,
      );
      expect(await rejectionOf(clock.run(call))).toBe(error);
      expect(calledAt).toHaveLength(1);
    },
  );

  test("ends only the calls around it: the same error thrown elsewhere is retried", async () => {
    const { clock, random } = world();
    const error = statusError(503);
    await rejectionOf(retry(() => Promise.reject(new NonRetryableError(error))));
    const { fn, calledAt } = flaky(clock, [{ throws: error }]);
    const rejected = await rejectionOf(clock.run(retry(fn, { clock, random, ...FAST })));
    expect(rejected).toBeInstanceOf(RedriveError);
    expect(calledAt).toHaveLength(5);
  });
});
