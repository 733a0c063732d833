/**
 * Tests of `retry`: its defaults, its attempts and its options.
 * Tests of a call: how it ends, what its error contains, and how results are classified.
 * Tests that one call with the current hidden class stays alive, so that a full collection does not
 * discard the code compiled for calls.
 */

import { setFlagsFromString } from "node:v8";
import { runInThisContext } from "node:vm";
import {
  DocumentError,
  type Outcome,
  RedriveError,
  resolvePolicy,
  virtualClock,
} from "@redrive/core";
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../testing.ts";
import type { AttemptContext, Classify } from "./options.ts";
import { CallExecution, retry } from "./retry.ts";
import {
  rejectionOf,
  reportsOf,
  START_AT,
  statusError,
  untilAborted,
  world,
} from "./world.testing.ts";

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

function gaveUp(error: unknown): RedriveError {
  expect(error).toBeInstanceOf(RedriveError);
  expect(error).toMatchObject({ code: "GAVE_UP" });
  return error as RedriveError;
}

describe("the operation's own error", () => {
  test("is thrown unchanged when nothing was retried", async () => {
    const own = Object.freeze(statusError(404));
    expect(await rejectionOf(retry(() => Promise.reject(own)))).toBe(own);
    const fault = new TypeError("x is not a function");
    const thrower = () => {
      throw fault;
    };
    expect(await rejectionOf(retry(thrower))).toBe(fault);
  });

  test("is thrown unchanged with a policy of one attempt", async () => {
    const own = statusError(503);
    expect(await rejectionOf(retry(() => Promise.reject(own), { maxAttempts: 1 }))).toBe(own);
  });

  test("may be any value, even undefined", async () => {
    const once = { maxAttempts: 1 };
    expect(await rejectionOf(retry(() => Promise.reject(undefined), once))).toBeUndefined();
    expect(await rejectionOf(retry(() => Promise.reject("text"), once))).toBe("text");
  });
});

describe("a call that was retried and given up", () => {
  test("rejects with the reason, the cause and every attempt", async () => {
    const { clock, random } = world();
    const [first, last] = [statusError(503), statusError(502)];
    const { fn } = flaky(clock, [
      { throws: first, afterMs: 30 },
      { throws: last, afterMs: 20 },
    ]);
    const options = { clock, random, maxAttempts: 2, jitterType: "NONE" } as const;
    const error = gaveUp(await rejectionOf(clock.run(retry(fn, options))));
    expect(error.reason).toBe("attempts");
    expect(error.cause).toBe(last);
    expect(error.message).toBe("gave up after 2 attempts (attempts): status 502");
    expect(error.attempts).toEqual([
      {
        attempt: 1,
        startedAt: START_AT,
        durationMs: 30,
        status: 503,
        error: first,
        verdict: "transient",
        waitMs: 100,
      },
      {
        attempt: 2,
        startedAt: START_AT + 130,
        durationMs: 20,
        status: 502,
        error: last,
        verdict: "transient",
      },
    ]);
  });

  const slow = { afterMs: 400 };
  const cases: readonly [string, object, readonly object[]][] = [
    ["attempts", { maxAttempts: 2 }, [{ throws: statusError(503) }]],
    ["budget", { totalBudgetMs: 1000, initialDelayMs: 300 }, [{ throws: new Error("x"), ...slow }]],
    ["not-retryable", {}, [{ throws: statusError(503) }, { throws: statusError(400) }]],
    [
      "not-idempotent",
      { method: "POST" },
      [
        { throws: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) },
        { throws: statusError(503) },
      ],
    ],
  ];
  test.each(cases)("has the reason %s", async (reason, options, steps) => {
    const { clock, random } = world();
    const { fn } = flaky(clock, steps as never);
    const error = gaveUp(await rejectionOf(clock.run(retry(fn, { clock, random, ...options }))));
    expect(error.reason).toBe(reason);
    expect(error.attempts.length).toBeGreaterThan(1);
    expect(error.attempts.at(-1)).not.toHaveProperty("waitMs");
  });

  test("has the reason retry-after when the requested wait does not fit", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ throws: statusError(503) }]);
    const hinted: Classify<unknown> = (_, attempt): Outcome => ({
      kind: "status",
      status: 503,
      ...(attempt > 1 && { retryAfterMs: 3_600_000 }),
    });
    const call = retry(fn, { clock, random, classify: hinted });
    expect(gaveUp(await rejectionOf(clock.run(call))).reason).toBe("retry-after");
  });

  test("takes an abort error as a client's own timeout if nobody has aborted the call", async () => {
    const { clock, random } = world();
    const abort = new DOMException("stopped inside", "AbortError");
    const { fn, calledAt } = flaky(clock, [{ throws: abort }, { returns: "done" }]);
    expect(await clock.run(retry(fn, { clock, random }))).toBe("done");
    expect(calledAt).toHaveLength(2);
  });
});

describe("an attempt that takes too long", () => {
  test("is aborted and ends a call of one attempt with a timeout", async () => {
    const { clock } = world();
    let reason: unknown;
    const call = retry(
      (context) => {
        context.signal.addEventListener("abort", () => {
          reason = context.signal.reason;
        });
        return untilAborted(context);
      },
      { clock, maxAttempts: 1, attemptTimeoutMs: 200 },
    );
    const error = gaveUp(await rejectionOf(clock.run(call)));
    expect(error.reason).toBe("attempts");
    expect(error.cause).toBe(reason);
    expect(reason).toMatchObject({
      code: "ATTEMPT_TIMEOUT",
      message: "attempt 1 took longer than 200 ms",
    });
  });

  test("is retried, and its late result is ignored, if it has read its signal", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ returns: "late", afterMs: 5000 }, { returns: "in time" }]);
    const deaf = ({ attempt, signal }: AttemptContext) => {
      if (signal.aborted) return "never";
      return fn({ attempt, signal: new AbortController().signal } as never);
    };
    const call = retry(deaf, { clock, random, attemptTimeoutMs: 100 });
    expect(await clock.run(call)).toBe("in time");
    await clock.advance(10_000);
  });

  test("is not retried if the policy does not list timeouts", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ returns: 1, afterMs: 5000 }]);
    const retryableErrors = ["connect"] as const;
    const call = retry(fn, { clock, random, attemptTimeoutMs: 100, retryableErrors });
    expect(gaveUp(await rejectionOf(clock.run(call))).reason).toBe("not-retryable");
    expect(calledAt).toHaveLength(1);
  });

  test("gets at most the time that the whole call has left", async () => {
    const { clock } = world();
    const options = {
      clock,
      maxAttempts: 3,
      totalBudgetMs: 1000,
      attemptTimeoutMs: 700,
      initialDelayMs: 0,
    };
    const error = gaveUp(await rejectionOf(clock.run(retry(untilAborted, options))));
    // 700 and 299, each late by at most a sixteenth.
    expect(clock.now() - START_AT).toBeGreaterThanOrEqual(1000);
    expect(clock.now() - START_AT).toBeLessThanOrEqual(1000 + 64);
    expect(error.attempts).toHaveLength(2);
  });
});

describe("a deadline", () => {
  test("that has passed ends the call before any attempt", async () => {
    const { clock } = world();
    let calls = 0;
    const error = gaveUp(await rejectionOf(retry(() => calls++, { clock, deadlineAt: START_AT })));
    expect(error).toMatchObject({ reason: "budget", attempts: [] });
    expect(error.message).toMatch(
      /^gave up after 0 attempts \(budget\): the deadline of the call passed \d+ ms ago$/,
    );
    expect(calls).toBe(0);
  });

  test.each([1, 60_000, 365 * 86_400_000])(
    "that passed %i ms ago is an ordinary give-up",
    async (agoMs) => {
      const { clock } = world();
      const call = retry(() => 1, { clock, deadlineAt: START_AT - agoMs });
      expect(gaveUp(await rejectionOf(call))).toMatchObject({ reason: "budget", attempts: [] });
    },
  );

  test("shortens the first attempt", async () => {
    const { clock } = world();
    const call = retry(untilAborted, { clock, deadlineAt: START_AT + 100 });
    await rejectionOf(clock.run(call));
    expect(clock.now() - START_AT).toBeGreaterThanOrEqual(100);
    expect(clock.now() - START_AT).toBeLessThanOrEqual(107);
  });
});

describe("a classifier", () => {
  test("decides which errors are retried; undefined means the default", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(400) }, { returns: "ok" }]);
    const classify: Classify<string> = (ending) => ("error" in ending ? "transient" : undefined);
    expect(await clock.run(retry(fn, { clock, random, classify }))).toBe("ok");
    expect(calledAt).toHaveLength(2);
  });

  test("can make a TypeError retryable", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ throws: new TypeError("odd") }, { returns: "ok" }]);
    const classify: Classify<unknown> = (ending) => ("error" in ending ? "transient" : undefined);
    expect(await clock.run(retry(fn, { clock, random, classify }))).toBe("ok");
  });

  test("classifies values too: a value may be a failure", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ returns: "pending" }, { returns: "done" }]);
    const classify: Classify<string> = (ending) =>
      "value" in ending && ending.value === "pending" ? "transient" : undefined;
    expect(await clock.run(retry(fn, { clock, random, classify }))).toBe("done");
  });

  test("a value that stays a failure rejects, or resolves with keepLast", async () => {
    const { clock, random } = world();
    const classify: Classify<string> = () => "terminal";
    const call = retry(() => "bad", { clock, random, classify });
    expect(gaveUp(await rejectionOf(call))).toMatchObject({ reason: "not-retryable" });
    expect(await retry(() => "bad", { clock, random, classify, keepLast: true })).toBe("bad");
  });

  test("that declares an error a success ends the call with that error", async () => {
    const own = statusError(409);
    const { onEvent, events } = world();
    const call = retry(() => Promise.reject(own), { classify: () => "success", onEvent });
    expect(await rejectionOf(call)).toBe(own);
    expect(events.at(-1)).toMatchObject({ type: "give-up", reason: "not-retryable" });
  });

  test("that throws ends the call with its error and leaves nothing behind", async () => {
    const { clock } = world();
    const mistake = new Error("bad classifier");
    const classify = () => {
      throw mistake;
    };
    expect(await rejectionOf(clock.run(retry(() => 1, { clock, classify })))).toBe(mistake);
    const failing = retry(() => Promise.reject(statusError(503)), { clock, classify });
    expect(await rejectionOf(clock.run(failing))).toBe(mistake);
    const slow = retry(untilAborted, { clock, classify, attemptTimeoutMs: 100 });
    expect(await rejectionOf(clock.run(slow))).toBe(mistake);
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });
});

describe("a classifier that returns something else", () => {
  const returned: readonly (readonly [string, unknown])[] = [
    ["a promise", Promise.resolve("transient")],
    ["a word of its own", "ok"],
    ["null", null],
    ["true", true],
    ["an outcome of no known kind", { kind: "failed" }],
  ];
  test.each(returned)("%s ends the call: a success is not repeated", async (_, value) => {
    const { clock } = world();
    const { fn, calledAt } = flaky(clock, [{ returns: "charged" }]);
    const classify = (() => value) as Classify<string>;
    const error = await rejectionOf(clock.run(retry(fn, { clock, classify })));
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect((error as Error).message).toContain("classify must return one of success, transient,");
    expect(calledAt).toHaveLength(1);
  });
});

describe("events", () => {
  test("report the call in order", async () => {
    const { clock, random, onEvent, events } = world();
    const { fn } = flaky(clock, [{ throws: statusError(503), afterMs: 5 }, { returns: 1 }]);
    const options = { clock, random, onEvent, jitterType: "NONE" } as const;
    await clock.run(retry(fn, options));
    expect(events).toEqual([
      {
        type: "attempt-failed",
        at: START_AT + 5,
        attempt: 1,
        durationMs: 5,
        verdict: "transient",
        status: 503,
        error: statusError(503),
      },
      { type: "retry", at: START_AT + 5, attempt: 2, delayMs: 100, source: "policy" },
      { type: "success", at: START_AT + 105, attempt: 2, durationMs: 105 },
    ]);
  });

  const broken = new Error("broken listener");
  test.each([
    [
      "throws",
      () => {
        throw broken;
      },
    ],
    ["rejects", () => Promise.reject(broken)],
    [
      "rejects after a while",
      async () => {
        await Promise.resolve();
        throw broken;
      },
    ],
  ])(
    "a listener that %s does not stop the call or the process, and is reported",
    async (_, onEvent) => {
      const { clock, random } = world();
      const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: "fine" }]);
      const { fn: again } = flaky(clock, [{ throws: statusError(503) }, { returns: "fine" }]);
      const shop = destination("shop", { clock, random, onEvent });
      const heard: string[] = [];
      shop.on("*", ({ type }) => void heard.push(type));
      const reports = await reportsOf(async () => {
        expect(await clock.run(retry(fn, { clock, random, onEvent }))).toBe("fine");
        expect(await clock.run(shop.run(again))).toBe("fine");
      });
      expect(heard).toEqual(["attempt-failed", "retry", "success"]);
      expect(reports).toEqual({ unhandled: [], written: new Array(6).fill(broken) });
    },
  );
});

describe("an inner call that was given up", () => {
  test("is classified by its cause", async () => {
    const { clock, random } = world();
    const inner = () =>
      new RedriveError("GAVE_UP", "inner", { reason: "attempts", cause: statusError(404) });
    let calls = 0;
    const call = retry(
      () => {
        calls++;
        throw inner();
      },
      { clock, random },
    );
    expect(await rejectionOf(clock.run(call))).toBeInstanceOf(RedriveError);
    expect(calls).toBe(1);
  });

  test("because it may have taken effect is not repeated by the outer call", async () => {
    const { clock, random } = world();
    let calls = 0;
    const charge = () => {
      calls++;
      return new Promise<never>(() => undefined);
    };
    const shop = destination("shop", { clock, random, policy: { attemptTimeoutMs: 100 } });
    const call = retry(() => shop.run(charge, { method: "POST" }), { clock, random });
    expect(gaveUp(await rejectionOf(clock.run(call)))).toMatchObject({ reason: "not-idempotent" });
    expect(calls).toBe(1);
  });

  test("is retried if its cause is transient", async () => {
    const { clock, random } = world();
    const cause = statusError(503);
    const inner = new RedriveError("GAVE_UP", "inner", { reason: "attempts", cause });
    const { fn } = flaky(clock, [{ throws: inner }, { returns: "ok" }]);
    expect(await clock.run(retry(fn, { clock, random }))).toBe("ok");
  });
});

test("other thenables are awaited too", async () => {
  const thenable = {
    // biome-ignore lint/suspicious/noThenProperty: a thenable is what is tested here
    then: (resolve: (value: string) => void) => resolve("foreign"),
  } as PromiseLike<string>;
  expect(await retry(() => thenable)).toBe("foreign");
});

test("no timers remain when a call has ended", async () => {
  const { clock, random } = world();
  const { fn } = flaky(clock, [
    { throws: new Error("down"), afterMs: 3 },
    { returns: 1, afterMs: 9 },
  ]);
  await clock.run(retry(fn, { clock, random }));
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
});

setFlagsFromString("--allow-natives-syntax");
const haveSameMap: (a: object, b: object | undefined) => boolean = runInThisContext(
  "(a, b) => %HaveSameMap(a, b)",
);

/** The context of the first attempt is the call object itself. */
async function newCall(): Promise<AttemptContext> {
  return retry((context) => context);
}

async function expectRetained(): Promise<void> {
  expect(haveSameMap(await newCall(), CallExecution.retained)).toBe(true);
}

test("after a call that succeeds", expectRetained);

test("after the first retry that stores a number beyond 32 bits", async () => {
  const { clock, random } = world();
  const policy = { maxAttempts: 2, initialDelayMs: 10 };
  const retryBudget = { kind: "RATIO", windowMs: 1000, minPerSecond: 100 } as const;
  const ours = destination("first", { policy, retryBudget, clock, random });
  const call = ours.run(() => Promise.reject(statusError(503))).catch(() => undefined);
  await clock.advance(1000);
  await call;
  await expectRetained();
});

test("after retries, waits, timeouts, hedges and failures", async () => {
  const { clock, random } = world();
  const policy = { maxAttempts: 3, attemptTimeoutMs: 1000, initialDelayMs: 10 };
  const ours = destination("kept", {
    policy,
    retryBudget: { kind: "RATIO", windowMs: 1000, minPerSecond: 100 },
    breaker: { minCalls: 2 },
    concurrency: { algorithm: "FIXED", max: 1, queue: 5 },
    hedge: { after: 100 },
    clock,
    random,
  });
  const throwing = () => Promise.reject(statusError(503));
  for (const fn of [throwing, untilAborted, () => 1, throwing]) {
    const calls = [1, 2].map(() => ours.run(fn, { patience: "wait" }).catch(() => undefined));
    await clock.advance(60_000);
    await Promise.all(calls);
    await expectRetained();
  }
});
