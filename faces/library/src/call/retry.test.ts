/** Tests of `retry`: its defaults, its attempts and its options. */
import { DocumentError, RedriveError, resolvePolicy, virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { flaky } from "../extras/testing.ts";
import { retry } from "./retry.ts";
import { rejectionOf, START_AT, statusError, world } from "./world.testing.ts";

describe("without options", () => {
  test("resolves with the value of an operation that succeeds at once", async () => {
    expect(await retry(() => 42)).toBe(42);
    expect(await retry(async () => "later")).toBe("later");
    expect(await retry(() => undefined)).toBeUndefined();
  });

  test("keeps the type of the operation", () => {
    expectTypeOf(retry(() => 1)).toEqualTypeOf<Promise<number>>();
    expectTypeOf(retry(async () => ["a"])).toEqualTypeOf<Promise<string[]>>();
  });

  test("passes the attempt number to the operation", async () => {
    const seen = await retry(
      ({ attempt, previousError, endpoint, idempotencyKey, deadlineAt }) => ({
        attempt,
        previousError,
        endpoint,
        idempotencyKey,
        hasDeadline: deadlineAt > 0,
      }),
    );
    expect(seen).toEqual({
      attempt: 1,
      previousError: undefined,
      endpoint: undefined,
      idempotencyKey: undefined,
      hasDeadline: true,
    });
  });

  test("uses the policy's defaults: five attempts, 100 ms doubling, full jitter", async () => {
    const { clock, random, onEvent, events } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: new Error("down") }]);
    await rejectionOf(clock.run(retry(fn, { clock, random, onEvent })));
    const { maxAttempts } = resolvePolicy();
    expect(calledAt).toHaveLength(maxAttempts);
    const delays = events.flatMap((event) => (event.type === "retry" ? [event.delayMs] : []));
    expect(delays).toHaveLength(4);
    for (const [index, delayMs] of delays.entries()) {
      expect(delayMs).toBeGreaterThanOrEqual(0);
      expect(delayMs).toBeLessThanOrEqual(100 * 2 ** index);
    }
  });
});

describe("the attempts", () => {
  test("are made until one succeeds", async () => {
    const { clock, random } = world();
    const { fn, contexts } = flaky(clock, [
      { throws: statusError(503) },
      { throws: statusError(500) },
      { returns: "there" },
    ]);
    expect(await clock.run(retry(fn, { clock, random }))).toBe("there");
    expect(contexts.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  });

  test("wait exactly as long as the policy requires", async () => {
    const { clock } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: new Error("down") }]);
    const options = { clock, maxAttempts: 4, initialDelayMs: 100, jitterType: "NONE" } as const;
    await rejectionOf(clock.run(retry(fn, options)));
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 100, 300, 700]);
  });

  test("get the previous error, and the same key and deadline", async () => {
    const { clock, random } = world();
    const first = new Error("first");
    const contexts: unknown[] = [];
    await clock.run(
      retry(
        ({ attempt, previousError, idempotencyKey, deadlineAt }) => {
          contexts.push({ previousError, idempotencyKey, deadlineAt });
          if (attempt === 1) throw first;
        },
        { clock, random, idempotencyKey: "k-1", totalBudgetMs: 5000 },
      ),
    );
    const rest = { idempotencyKey: "k-1", deadlineAt: START_AT + 5000 };
    expect(contexts).toEqual([
      { previousError: undefined, ...rest },
      { previousError: first, ...rest },
    ]);
  });

  test("start at the same instants for the same seed, regardless of earlier calls", async () => {
    const instants = async () => {
      const { clock, random } = world("replay");
      const { fn, calledAt } = flaky(clock, [{ throws: new Error("down") }]);
      await rejectionOf(clock.run(retry(fn, { clock, random })));
      return calledAt;
    };
    const first = await instants();
    await retry(() => 1);
    expect(await instants()).toEqual(first);
  });

  test("of two calls with one random source wait differently", async () => {
    const { clock, random } = world("herd");
    const delays: number[] = [];
    const onEvent = (event: { type: string; delayMs?: number }) => {
      if (event.type === "retry") delays.push(event.delayMs ?? -1);
    };
    const options = { clock, random, onEvent, maxAttempts: 2, initialDelayMs: 10_000 };
    const fail = () => {
      throw new Error("down");
    };
    await clock.run(Promise.allSettled([retry(fail, options), retry(fail, options)]));
    expect(delays[0]).not.toBe(delays[1]);
  });
});

describe("options", () => {
  const refused = async (options: object) => rejectionOf(retry(() => 1, options));

  test("with an unknown name are refused, and the error suggests the right name", async () => {
    const error = await refused({ maxAttempt: 3 });
    expect(error).toBeInstanceOf(DocumentError);
    expect((error as Error).message).toBe(
      'unknown field "maxAttempt", did you mean "maxAttempts"?',
    );
    expect(await refused({ clasify: () => undefined })).toMatchObject({
      code: "INVALID_POLICY",
      message: 'unknown field "clasify", did you mean "classify"?',
    });
  });

  test("with a bad value are refused, and the error quotes the value", async () => {
    expect(await refused({ maxAttempts: 0 })).toMatchObject({
      code: "INVALID_POLICY",
      message: "maxAttempts must be a whole number from 1 to 1000, got 0",
    });
    expect(await refused({ nested: "never" })).toMatchObject({
      message: 'nested must be one of yield, retry, got "never"',
    });
    expect(await refused({ patience: "long" })).toBeInstanceOf(DocumentError);
    expect(await refused({ classify: "transient" })).toBeInstanceOf(DocumentError);
    expect(await refused({ signal: "stop" })).toBeInstanceOf(DocumentError);
    expect(await refused({ idempotencyKey: 7 })).toBeInstanceOf(DocumentError);
  });

  test("with an invalid deadline are refused, also the second time", async () => {
    const message = "deadlineAt must be epoch ms, not decades ago, got NaN";
    for (let n = 0; n < 2; n++) {
      const error = await refused({ deadlineAt: Number.NaN });
      expect(error).toMatchObject({ code: "INVALID_ARGUMENT", message });
    }
  });

  test.each([
    ["a duration", 500],
    ["zero", 0],
    ["epoch seconds", 1_700_000_000],
    ["a negative number", -1],
    ["infinity", Number.POSITIVE_INFINITY],
  ])("with %s as the deadline are refused", async (_, deadlineAt) => {
    const message = `deadlineAt must be epoch ms, not decades ago, got ${deadlineAt}`;
    expect(await refused({ deadlineAt })).toMatchObject({ code: "INVALID_ARGUMENT", message });
  });

  test("may have a deadline near 0 on a clock that starts there", async () => {
    const clock = virtualClock(0);
    expect(await clock.run(retry(() => 1, { clock, deadlineAt: 500 }))).toBe(1);
    const late = rejectionOf(retry(() => 1, { clock, deadlineAt: 0 }));
    expect(await late).toMatchObject({ code: "GAVE_UP", reason: "budget" });
  });

  test("that contradict each other are refused", async () => {
    expect(await refused({ initialDelayMs: 5000, maxDelayMs: 10 })).toMatchObject({
      message: "maxDelayMs must be at least initialDelayMs (5000), got 10",
    });
  });

  test("are refused before the operation is called", async () => {
    let calls = 0;
    await rejectionOf(retry(() => calls++, { maxAttempts: -1 }));
    expect(calls).toBe(0);
  });

  test("with the value undefined count as absent", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: new Error("down") }]);
    const options = { clock, random, maxAttempts: undefined } as object;
    await rejectionOf(clock.run(retry(fn, options)));
    expect(calledAt).toHaveLength(5);
  });

  test("a policy that requires a key refuses a call without one before any attempt", async () => {
    let calls = 0;
    const error = await rejectionOf(retry(() => calls++, { requireIdempotencyKey: true }));
    expect(error).toMatchObject({ code: "IDEMPOTENCY_KEY_REQUIRED" });
    expect(calls).toBe(0);
    const options = { requireIdempotencyKey: true, idempotencyKey: "k" };
    expect(await retry(() => "ok", options)).toBe("ok");
  });

  test("every field of the policy has an effect", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), async (maxAttempts) => {
        const { clock, random } = world();
        const { fn, calledAt } = flaky(clock, [{ throws: new Error("down") }]);
        const error = await rejectionOf(clock.run(retry(fn, { clock, random, maxAttempts })));
        expect(calledAt).toHaveLength(maxAttempts);
        expect(error instanceof RedriveError).toBe(maxAttempts > 1);
      }),
      { numRuns: 8 },
    );
  });
});
