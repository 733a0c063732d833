/** Tests of a call: how it ends, what its error contains, and how results are classified. */
import { type Outcome, RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../extras/testing.ts";
import type { Classify } from "./options.ts";
import { retry } from "./retry.ts";
import {
  rejectionOf,
  reportsOf,
  START_AT,
  statusError,
  untilAborted,
  world,
} from "./world.testing.ts";

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

  test("rejects with the operation's own abort error, unchanged", async () => {
    const { clock, random } = world();
    const abort = new DOMException("stopped inside", "AbortError");
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }, { throws: abort }]);
    expect(await rejectionOf(clock.run(retry(fn, { clock, random })))).toBe(abort);
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

  test("is retried, and its late result is ignored", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ returns: "late", afterMs: 5000 }, { returns: "in time" }]);
    const deaf = ({ attempt }: { attempt: number }) =>
      fn({ attempt, signal: new AbortController().signal } as never);
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
    expect(error.message).toBe("gave up after 0 attempts (budget)");
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
