/**
 * Tests of a destination: what its calls share, what a call can override, and its events.
 * Tests of wrapped functions: their context, and options for one call.
 */
import { DocumentError } from "@redrive/core";
import { describe, expect, expectTypeOf, test } from "vitest";
import type { RetryScheduled } from "../call/call-event.ts";
import type { AttemptContext } from "../call/options.ts";
import { rejectionOf, START_AT, statusError, untilAborted, world } from "../call/world.testing.ts";
import { flaky } from "../testing.ts";
import { type DestinationInput, destination, sharedBudget } from "./destination.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;

function shopOf(input: DestinationInput = {}, seed = "shop") {
  const given = world(seed);
  const { clock, random, onEvent } = given;
  return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
}

const fail = (status = 503) => Promise.reject(statusError(status));

describe("the document", () => {
  test("is checked by name and value when the destination is created", () => {
    const make = (input: object) => () => destination("d", input);
    expect(make({ braker: {} })).toThrow('unknown field "braker", did you mean "breaker"?');
    expect(make({ breaker: { openMs: -1 } })).toThrow(
      "breaker.openMs must be a whole number from 1 to 86400000, got -1",
    );
    expect(make({ policy: { maxAttempts: 0 } })).toThrow("policy.maxAttempts");
    expect(make({ policy: "interactve" })).toThrow(DocumentError);
    expect(make({ retryBudget: { ratio: "much" } })).toThrow(DocumentError);
  });

  test("may name a preset", () => {
    expect(destination("d", { policy: "interactive" }).policy).toMatchObject({
      policyId: "interactive",
      maxAttempts: 3,
    });
  });

  test("without any field has a retry budget and no other guard", () => {
    expect(destination("d").stats()).toEqual({
      destination: "d",
      firsts: 0,
      retries: 0,
      hedges: 0,
      successes: 0,
      failures: 0,
      refused: 0,
      breaker: undefined,
      keys: {},
      retryBudget: true,
      inFlight: undefined,
      concurrencyLimit: undefined,
      p50Ms: undefined,
      p95Ms: undefined,
      p99Ms: undefined,
    });
  });
});

describe("overrides of one call", () => {
  test("change the policy for that call only", async () => {
    const { clock, shop } = shopOf({ policy: { maxAttempts: 3, ...FAST } });
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(shop.run(fn, { maxAttempts: 2 })));
    expect(calledAt).toHaveLength(2);
    await rejectionOf(clock.run(shop.run(fn)));
    expect(calledAt).toHaveLength(5);
  });

  test("leave the rest of the destination's own policy in place", async () => {
    const { clock, shop } = shopOf({ policy: { maxAttempts: 3, ...FAST } });
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(shop.run(fn, { initialDelayMs: 20 })));
    expect(calledAt.map((at) => at - START_AT)).toEqual([0, 20, 60]);
    const unsaid = { maxAttempts: undefined } as object;
    await rejectionOf(clock.run(shop.run(fn, unsaid)));
    expect(calledAt).toHaveLength(6);
  });

  test("are checked", async () => {
    const { shop } = shopOf();
    const error = await rejectionOf(shop.run(() => 1, { maxAttmpts: 2 } as object));
    expect((error as Error).message).toBe(
      'unknown field "maxAttmpts", did you mean "maxAttempts"?',
    );
  });

  test("may have a classifier, which replaces the destination's", async () => {
    const { clock, shop } = shopOf({ classify: () => "terminal", policy: FAST });
    const own = flaky(clock, [{ throws: new Error("x") }, { returns: 1 }]);
    const classify = (ending: object) => ("error" in ending ? "transient" : undefined);
    expect(await clock.run(shop.run(own.fn, { classify }))).toBe(1);
    const other = flaky(clock, [{ throws: new Error("x") }]);
    await rejectionOf(clock.run(shop.run(other.fn)));
    expect(other.calledAt).toHaveLength(1);
  });

  test("the destination's idempotent applies unless the call overrides it", async () => {
    const { clock, shop } = shopOf({ idempotent: true, policy: { maxAttempts: 2, ...FAST } });
    const repeated = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(shop.run(repeated.fn, { method: "POST" })));
    expect(repeated.calledAt).toHaveLength(2);
    const single = flaky(clock, [{ throws: statusError(503) }]);
    const overrides = { method: "POST", idempotent: false };
    await rejectionOf(clock.run(shop.run(single.fn, overrides)));
    expect(single.calledAt).toHaveLength(1);
  });
});

describe("wrap", () => {
  test("keeps arguments and types", async () => {
    const { shop } = shopOf();
    const plain = async (id: string, limit = 1) => [{ id, limit }];
    const find = shop.wrap(plain);
    expectTypeOf(find).parameters.toEqualTypeOf<Parameters<typeof plain>>();
    expectTypeOf(find).returns.toEqualTypeOf<ReturnType<typeof plain>>();
    expect(await find("a")).toEqual([{ id: "a", limit: 1 }]);
  });

  test("keeps the `this` of a method", async () => {
    const { shop } = shopOf();
    class Counter {
      count = 0;
      add = shop.wrap(this.plainAdd);
      plainAdd(by: number) {
        this.count += by;
        return this.count;
      }
    }
    const counter = new Counter();
    expect(await counter.add(2)).toBe(2);
    expect(await counter.add(3)).toBe(5);
  });

  test("retries the function with the same arguments", async () => {
    const { clock, shop } = shopOf({ policy: FAST });
    const seen: string[] = [];
    const load = shop.wrap((id: string) => {
      seen.push(id);
      return seen.length === 1 ? fail() : id.length;
    });
    expect(await clock.run(load("abc"))).toBe(3);
    expect(seen).toEqual(["abc", "abc"]);
  });
});

describe("events", () => {
  test("are typed by the name that is listened to", () => {
    const { shop } = shopOf();
    shop.on("retry", (event) => expectTypeOf(event).toEqualTypeOf<RetryScheduled>());
    shop.on("*", (event) => expectTypeOf(event.type).toBeString());
  });

  test("come in order, with the destination's name and the call's key", async () => {
    const { clock, shop, events } = shopOf({ policy: FAST, breaker: { minCalls: 1, openMs: 5 } });
    const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: 1 }]);
    await clock.run(shop.run(fn, { key: "eu" }));
    expect(events.map(({ type }) => type)).toEqual([
      "breaker",
      "attempt-failed",
      "retry",
      "breaker",
      "breaker",
      "success",
    ]);
    for (const event of events) expect(event).toMatchObject({ destination: "shop", key: "eu" });
    const changes = events.flatMap((event) =>
      event.type === "breaker" ? [`${event.from} ${event.to}`] : [],
    );
    expect(changes).toEqual(["CLOSED OPEN", "OPEN HALF_OPEN", "HALF_OPEN CLOSED"]);
  });

  test("reach the listeners of their type until they stop listening", async () => {
    const { clock, shop } = shopOf({ policy: FAST });
    const seen: string[] = [];
    const stop = shop.on("success", ({ type }) => seen.push(type));
    shop.on("retry", ({ type }) => seen.push(type));
    await clock.run(shop.run(() => 1));
    stop();
    stop();
    await clock.run(shop.run(() => 1));
    expect(seen).toEqual(["success"]);
  });

  test("the same listener may be added twice and removed once", async () => {
    const { clock, shop } = shopOf();
    let heard = 0;
    const listener = () => heard++;
    const stop = shop.on("success", listener);
    shop.on("success", listener);
    stop();
    await clock.run(shop.run(() => 1));
    expect(heard).toBe(1);
  });

  test("end with dispose, and running calls continue", async () => {
    const { clock, shop, events } = shopOf({ policy: FAST });
    const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: "done" }]);
    const call = shop.run(fn);
    await clock.advance(1);
    const before = events.length;
    shop[Symbol.dispose]();
    expect(await clock.run(call)).toBe("done");
    expect(events).toHaveLength(before);
  });
});

describe("stats", () => {
  test("count attempts, calls and refusals", async () => {
    const { clock, shop } = shopOf({
      policy: { maxAttempts: 2, ...FAST },
      breaker: { minCalls: 3, openMs: 60_000 },
      concurrency: { algorithm: "FIXED", max: 4 },
    });
    await clock.run(shop.run(() => clock.sleep(40)));
    await rejectionOf(clock.run(shop.run(() => fail())));
    await rejectionOf(clock.run(shop.run(() => fail())));
    expect(shop.stats()).toMatchObject({
      firsts: 2,
      retries: 1,
      successes: 1,
      failures: 2,
      refused: 1,
      breaker: "OPEN",
      inFlight: 0,
      concurrencyLimit: 4,
    });
    const { p50Ms } = shop.stats();
    expect(p50Ms).toBeGreaterThanOrEqual(39);
    expect(p50Ms).toBeLessThanOrEqual(42);
  });
});

describe("a shared budget", () => {
  test("spent by one destination is not available to the other", async () => {
    const { clock, random } = world();
    const budget = sharedBudget({ kind: "TOKENS", maxTokens: 28, costPerRetry: 14 }, clock);
    const input = { clock, random, sharedBudget: budget, policy: { maxAttempts: 3, ...FAST } };
    const [one, other] = [destination("one", input), destination("other", input)];
    const first = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(one.run(first.fn)));
    expect(first.calledAt).toHaveLength(3);
    const second = flaky(clock, [{ throws: statusError(503) }]);
    const error = await rejectionOf(clock.run(other.run(second.fn)));
    expect(second.calledAt).toHaveLength(1);
    expect(error).toMatchObject({ reason: "retry-budget", attempts: [{ attempt: 1 }] });
    expect(other.stats().retryBudget).toBe(false);
  });

  test("that is not a budget is refused", () => {
    expect(() => sharedBudget({ ratio: -1 })).toThrow("retryBudget.ratio");
  });
});

test("two destinations with the same seed behave the same", async () => {
  const instants = async () => {
    const { clock, shop } = shopOf({ policy: { maxAttempts: 4 } }, "again");
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(shop.run(fn)));
    return calledAt;
  };
  expect(await instants()).toEqual(await instants());
});

test("a call to a destination has the attempt timeout of its policy", async () => {
  const { clock, shop } = shopOf({ policy: { maxAttempts: 1, attemptTimeoutMs: 300 } });
  const error = await rejectionOf(clock.run(shop.run(untilAborted)));
  expect(error).toMatchObject({ reason: "attempts", cause: { code: "ATTEMPT_TIMEOUT" } });
  expect((error as Error).message).toBe(
    "shop: gave up after 1 attempt (attempts): attempt 1 took longer than 300 ms",
  );
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
});

function apiOf() {
  const { clock, random } = world();
  const policy = { maxAttempts: 3, initialDelayMs: 10, jitterType: "NONE" } as const;
  return { clock, api: destination("api", { clock, random, policy }) };
}

test("a function wrapped with its context gets it as the first argument", async () => {
  const { clock, api } = apiOf();
  const seen: unknown[] = [];
  const load = api.wrapWithContext(({ attempt, signal }, id: string, page?: number) => {
    seen.push([attempt, signal.aborted, id, page]);
    if (attempt === 1) throw statusError(503);
    return `${id}/${page ?? 1}`;
  });
  expectTypeOf(load).parameters.toEqualTypeOf<[id: string, page?: number | undefined]>();
  expect(await clock.run(load("a"))).toBe("a/1");
  expect(seen).toEqual([
    [1, false, "a", undefined],
    [2, false, "a", undefined],
  ]);
});

test("the context's signal is aborted when the attempt times out", async () => {
  const { clock, api } = apiOf();
  const options = { maxAttempts: 1, attemptTimeoutMs: 100 };
  const load = api.wrapWithContext((context: AttemptContext) => untilAborted(context), options);
  const error = await rejectionOf(clock.run(load()));
  expect(error).toMatchObject({ cause: { code: "ATTEMPT_TIMEOUT" } });
});

test("with() adds a signal to one call and does not change the arguments", async () => {
  const { clock, api } = apiOf();
  const calls: unknown[] = [];
  const load = api.wrap((id: string) => {
    calls.push(id);
    return id === "slow" ? clock.sleep(60_000).then(() => id) : id;
  });
  const controller = new AbortController();
  const slow = rejectionOf(load.with({ signal: controller.signal })("slow"));
  controller.abort(new Error("the user left"));
  expect(await slow).toMatchObject({ message: "the user left" });
  expect(await load("quick")).toBe("quick");
  expect(calls).toEqual(["slow", "quick"]);
});

test("with() adds to the options that the function was wrapped with", async () => {
  const { clock, api } = apiOf();
  let calls = 0;
  const fail = () => {
    calls++;
    return Promise.reject(statusError(503));
  };
  const load = api.wrap(fail, { maxAttempts: 2, rejectWith: "last-error" });
  const error = await rejectionOf(clock.run(load.with({ idempotencyKey: "k" })()));
  expect(error).toMatchObject({ status: 503 });
  expect(calls).toBe(2);
  await rejectionOf(clock.run(load.with({ maxAttempts: 1 })()));
  expect(calls).toBe(3);
});

test("`this` is kept, with a context and with options", async () => {
  const { api } = apiOf();
  const counter = {
    step: 5,
    plain: api.wrap(function (this: { step: number }, by: number) {
      return this.step * by;
    }),
    withContext: api.wrapWithContext(function (this: { step: number }, { attempt }, by: number) {
      return this.step * by + attempt;
    }),
  };
  expect(await counter.plain(2)).toBe(10);
  expect(await counter.withContext(2)).toBe(11);
  expect(await counter.withContext.with({ maxAttempts: 1 }).call(counter, 3)).toBe(16);
});
