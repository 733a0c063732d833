/**
 * Pitfalls: bugs that other libraries have or had, each shown not to be here. Numbers are those of
 * the study of peers; those that need sockets are in `test/library/pitfalls-sockets.test.ts`.
 */
import { getEventListeners } from "node:events";
import type { Outcome, resolvePolicy } from "@redrive/core";
import { describe, expect, test, vi } from "vitest";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { flaky, flakyFetch, seededRandom, virtualClock } from "../extras/testing.ts";
import { createFetch } from "../http/fetch.ts";
import { destination } from "./destination.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;
const ONCE = { maxAttempts: 1 } as const;
const down = () => Promise.reject(statusError(503));

test("1. body replay: a stream is sent once, and what is sent twice is whole", async () => {
  const { clock, random } = world();
  const server = flakyFetch(clock, [{ status: 503 }, { status: 200 }]);
  const http = createFetch({ clock, random, ...FAST }, { fetch: server.fetch });
  const body = new Blob(["streamed"]).stream();
  expect((await clock.run(http("http://a.example/", { method: "PUT", body }))).status).toBe(503);
  expect(server.requests).toHaveLength(1);
  await clock.run(http("http://a.example/", { method: "PUT", body: "text" }));
  for (const request of server.requests.slice(1)) expect(await request.text()).toBe("text");
});

describe("2. abort", () => {
  test("rejects a queued call at once, not when the running one ends", async () => {
    const concurrency = { algorithm: "FIXED", max: 1, queue: 5 } as const;
    const shop = destination("shop", { concurrency });
    const holder = deferred();
    const running = shop.run(() => holder.promise);
    const controller = new AbortController();
    const queued = rejectionOf(shop.run(() => 1, { signal: controller.signal }));
    controller.abort(new Error("left the line"));
    expect(await queued).toMatchObject({ message: "left the line" });
    holder.resolve();
    await running;
  });

  test("a TimeoutError of the caller's signal is no attempt's timeout", async () => {
    const { clock, random } = world();
    const controller = new AbortController();
    const reason = new DOMException("the caller's time is up", "TimeoutError");
    let calls = 0;
    const call = retry(
      ({ signal }) => {
        calls++;
        return new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
      { clock, random, signal: controller.signal },
    );
    controller.abort(reason);
    expect(await rejectionOf(call)).toBe(reason);
    await clock.advance(60_000);
    expect(calls).toBe(1);
  });

  test("a TimeoutError of the function's own making is one, and is retried", async () => {
    const { clock, random } = world();
    const timeout = new DOMException("slow", "TimeoutError");
    const { fn } = flaky(clock, [{ throws: timeout }, { returns: "ok" }]);
    expect(await clock.run(retry(fn, { clock, random }))).toBe("ok");
  });
});

test("3. throttling gates hedges too: six failing hedged calls send 9, not 24", async () => {
  const { clock, random } = world();
  const shop = destination("shop", {
    clock,
    random,
    retryBudget: { kind: "GRPC", maxTokens: 4, tokenRatio: 0.1 },
    hedge: { after: 10, max: 3 },
    policy: ONCE,
  });
  const sent: number[] = [];
  for (let n = 0; n < 6; n++) {
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503), afterMs: 100 }]);
    await rejectionOf(clock.run(shop.run(fn)));
    sent.push(calledAt.length);
  }
  expect(sent).toEqual([4, 1, 1, 1, 1, 1]);
});

test("3. a pushback that says no is a no", async () => {
  const { clock, random } = world();
  const { fn, calledAt } = flaky(clock, [{ throws: new Error("busy") }]);
  const classify = (): Outcome => ({ kind: "grpc", code: "UNAVAILABLE", refused: true });
  await rejectionOf(clock.run(retry(fn, { clock, random, classify })));
  expect(calledAt).toHaveLength(1);
});

describe("4. Retry-After is never undercut", () => {
  const at = START_AT + 40_000;
  const day = new Date(at);
  const [name, date, month, year, time] = day.toUTCString().replace(",", "").split(" ");
  const long = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const spellings = [
    "40",
    day.toUTCString(),
    `${long[day.getUTCDay()]}, ${date}-${month}-${year?.slice(2)} ${time} GMT`,
    `${name} ${month} ${String(day.getUTCDate()).padStart(2, " ")} ${time} ${year}`,
  ];
  test.each(spellings)("%s", async (hint) => {
    const { clock, random } = world();
    const headers = { "retry-after": hint };
    const server = flakyFetch(clock, [{ status: 503, headers }, { status: 200 }]);
    const options = { clock, random, totalBudgetMs: 600_000, maxDelayMs: 200 };
    await clock.run(createFetch(options, { fetch: server.fetch })("http://a.example/"));
    expect((server.calledAt[1] ?? 0) - START_AT).toBeGreaterThanOrEqual(40_000);
    expect((server.calledAt[1] ?? 0) - START_AT).toBeLessThanOrEqual(44_000);
  });

  test("absurd ones end the call instead of the clock", async () => {
    const { clock, random } = world();
    const headers = { "retry-after": "9".repeat(30) };
    const server = flakyFetch(clock, [{ status: 503, headers }]);
    const options = { clock, random, totalBudgetMs: 600_000 };
    const http = createFetch(options, { fetch: server.fetch });
    expect((await clock.run(http("http://a.example/"))).status).toBe(503);
    expect(server.requests).toHaveLength(1);
  });
});

describe("5. jitter after the cap", () => {
  /** The waits of one call that is down for long. */
  async function delaysOf(options: RetryOptions, seed: number): Promise<number[]> {
    const clock = virtualClock();
    const delays: number[] = [];
    const onEvent = (event: { type: string; delayMs?: number }) => {
      if (event.type === "retry") delays.push(event.delayMs ?? -1);
    };
    const random = seededRandom(seed);
    await rejectionOf(clock.run(retry(down, { clock, random, onEvent, ...options })));
    return delays;
  }

  test("late retries do not pile up on the cap", async () => {
    const options = { maxAttempts: 16, maxDelayMs: 1000, totalBudgetMs: 600_000 };
    const late: number[] = [];
    for (let seed = 0; seed < 40; seed++) late.push((await delaysOf(options, seed)).at(-1) ?? -1);
    expect(late.filter((delayMs) => delayMs === 1000).length).toBeLessThan(5);
    expect(new Set(late).size).toBeGreaterThan(30);
    expect(Math.max(...late)).toBeLessThanOrEqual(1000);
  });

  test("the exponent never overflows", async () => {
    const options = { maxAttempts: 400, maxDelayMs: 1000, multiplier: 10, totalBudgetMs: 31e9 };
    const delays = await delaysOf(options, 1);
    expect(delays).toHaveLength(399);
    expect(delays.every((delayMs) => delayMs >= 0 && delayMs <= 1000)).toBe(true);
  });

  test("waits longer than a host's timers reach do not end at once", async () => {
    const DAY_MS = 86_400_000;
    const controller = new AbortController();
    let calls = 0;
    const call = retry(
      () => {
        calls++;
        throw statusError(503);
      },
      { delaysMs: [29 * DAY_MS], totalBudgetMs: 365 * DAY_MS, signal: controller.signal },
    );
    for (let n = 0; n < 5; n++) await new Promise((done) => setTimeout(done, 0));
    controller.abort();
    await rejectionOf(call);
    expect(calls).toBe(1);
  });
});

test("6. windows expire by time: failures of a minute ago open nothing", async () => {
  const { clock, random } = world();
  const breaker = { minCalls: 20, windowMs: 5000, failureRate: 0.9 };
  const shop = destination("shop", { clock, random, breaker, policy: ONCE });
  for (let n = 0; n < 19; n++) await rejectionOf(clock.run(shop.run(down)));
  await clock.advance(60_000);
  for (let n = 0; n < 19; n++) await rejectionOf(clock.run(shop.run(down)));
  expect(shop.stats().breaker).toBe("CLOSED");
  await rejectionOf(clock.run(shop.run(down)));
  expect(shop.stats().breaker).toBe("OPEN");
});

test("7. failure path cost: what is kept does not grow with the calls", async () => {
  const { clock, random } = world();
  const breaker = { minCalls: 1_000_000 };
  const shop = destination("shop", { clock, random, breaker, policy: ONCE });
  const sizeAfter = async (calls: number) => {
    for (let n = 0; n < calls; n++) await shop.run(down).catch(() => undefined);
    await clock.advance(1);
    return JSON.stringify(shop.save()).length;
  };
  const small = await sizeAfter(100);
  expect(await sizeAfter(1500)).toBeLessThan(small + 50);
});

describe("8. options that do nothing: every field of a policy shows its effect", () => {
  const timeout = Object.assign(new Error("slow"), { code: "ETIMEDOUT" });
  const hint = (): Outcome => ({ kind: "status", status: 503, retryAfterMs: 5000 });
  const throttled = (): Outcome => ({ kind: "status", status: 429 });
  const exhausted = (): Outcome => ({ kind: "grpc", code: "INTERNAL" });
  const cases: readonly [keyof ReturnType<typeof resolvePolicy>, RetryOptions, RetryOptions][] = [
    ["maxAttempts", {}, { maxAttempts: 2 }],
    ["backoff", {}, { backoff: "FIXED" }],
    ["initialDelayMs", {}, { initialDelayMs: 7 }],
    ["multiplier", {}, { multiplier: 3 }],
    ["maxDelayMs", {}, { maxDelayMs: 150 }],
    ["jitterType", {}, { jitterType: "FULL" }],
    [
      "jitterRatio",
      { jitterType: "PROPORTIONAL" },
      { jitterType: "PROPORTIONAL", jitterRatio: 0.9 },
    ],
    ["delaysMs", {}, { delaysMs: [1, 2, 3] }],
    ["totalBudgetMs", {}, { totalBudgetMs: 500 }],
    ["minCallMs", { totalBudgetMs: 800 }, { totalBudgetMs: 800, minCallMs: 300 }],
    ["retryableStatusCodes", {}, { retryableStatusCodes: [500] }],
    [
      "retryableGrpcCodes",
      { classify: exhausted },
      { classify: exhausted, retryableGrpcCodes: ["INTERNAL"] },
    ],
    ["throttleDelayMs", { classify: throttled }, { classify: throttled, throttleDelayMs: 900 }],
    ["respectRetryAfter", { classify: hint }, { classify: hint, respectRetryAfter: false }],
    ["maxRetryAfterMs", { classify: hint }, { classify: hint, maxRetryAfterMs: 1000 }],
  ];

  async function instants(options: RetryOptions, error: unknown = statusError(503)) {
    const { clock, random } = world("effects");
    const { fn, calledAt } = flaky(clock, [{ throws: error }]);
    const plain = "delaysMs" in options ? {} : { jitterType: "NONE" as const };
    await rejectionOf(clock.run(retry(fn, { clock, random, ...plain, ...options })));
    return calledAt;
  }

  test.each(cases)("%s", async (_, without, withIt) => {
    expect(await instants(withIt)).not.toEqual(await instants(without));
  });

  test("retryableErrors", async () => {
    const without = await instants({}, timeout);
    expect(await instants({ retryableErrors: ["connect"] }, timeout)).not.toEqual(without);
  });

  test("attemptTimeoutMs", async () => {
    const { clock } = world();
    const hang = () => new Promise(() => undefined);
    await rejectionOf(clock.run(retry(hang, { clock, ...ONCE, attemptTimeoutMs: 100 })));
    expect(clock.now() - START_AT).toBeLessThan(110);
  });
});

test("9. bail that does not bail: a terminal error ends the call, and options stay as they are", async () => {
  const { clock, random } = world();
  const { fn, calledAt } = flaky(clock, [{ throws: statusError(400) }]);
  const options = Object.freeze({ clock, random, maxAttempts: 4 });
  await rejectionOf(clock.run(retry(fn, options)));
  await clock.advance(600_000);
  expect(calledAt).toHaveLength(1);
});

test("10. timers: a wait that was aborted leaves none, and has taken no token", async () => {
  const { clock, random } = world();
  const retryBudget = { kind: "TOKENS", maxTokens: 14, costPerRetry: 14 } as const;
  const shop = destination("shop", { clock, random, retryBudget });
  const controller = new AbortController();
  const call = rejectionOf(shop.run(down, { signal: controller.signal }));
  await clock.advance(0);
  expect(shop.stats().retryBudget).toBe(true);
  const before = clock.pending();
  controller.abort();
  await call;
  expect(clock.pending()).toBe(before - 1);
  expect(shop.stats().retryBudget).toBe(true);
});

describe("11. TypeError", () => {
  async function callsFor(error: unknown, options: RetryOptions = {}): Promise<number> {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: error }]);
    await rejectionOf(clock.run(retry(fn, { clock, random, maxAttempts: 2, ...options })));
    return calledAt.length;
  }

  test("of a network is known by its cause first, and by its message last", async () => {
    const cause = Object.assign(new Error("?"), { code: "ECONNRESET" });
    expect(await callsFor(new TypeError("words of a host to come", { cause }))).toBe(2);
    for (const message of ["fetch failed", "Failed to fetch", "Load failed"]) {
      expect(await callsFor(new TypeError(message))).toBe(2);
    }
  });

  test("of a program is not retried, unless the caller says so", async () => {
    const fault = new TypeError("x.map is not a function");
    expect(await callsFor(fault)).toBe(1);
    const classify = () => "transient" as const;
    expect(await callsFor(fault, { classify })).toBe(2);
  });
});

describe("12. signals are expensive", () => {
  test("none is made unless it is read", async () => {
    const made = vi.fn();
    class Counted extends AbortController {
      constructor() {
        super();
        made();
      }
    }
    vi.stubGlobal("AbortController", Counted);
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, breaker: {}, hedge: { after: 5 } });
    await retry(() => 1);
    await clock.run(shop.run(() => clock.sleep(1)));
    expect(made).not.toHaveBeenCalled();
    await retry(({ signal }) => signal.aborted);
    expect(made).toHaveBeenCalledTimes(1);
  });

  test("none is aborted on success, and the same one is given each time it is read", async () => {
    const signals: AbortSignal[] = [];
    await retry((context) => void signals.push(context.signal, context.signal));
    expect(signals[0]).toBe(signals[1]);
    expect(signals[0]?.aborted).toBe(false);
  });

  test("one that is read after the attempt was cut off is aborted already", async () => {
    const { clock } = world();
    let late: AbortSignal | undefined;
    const call = retry(
      async (context) => {
        await clock.sleep(5000);
        late = context.signal;
      },
      { clock, ...ONCE, attemptTimeoutMs: 100 },
    );
    await rejectionOf(clock.run(call));
    await clock.advance(10_000);
    expect(late?.aborted).toBe(true);
    expect(late?.reason).toMatchObject({ code: "ATTEMPT_TIMEOUT" });
  });
});

test("13. hydration: a breaker that has just opened is restored open, for as long as it had left", async () => {
  const { clock, random } = world();
  const input = { clock, random, breaker: { minCalls: 1, openMs: 10_000 }, policy: ONCE };
  const shop = destination("shop", input);
  await rejectionOf(clock.run(shop.run(down)));
  const saved: unknown = JSON.parse(JSON.stringify(shop.save()));
  const next = destination("shop", { ...input, saved });
  expect(next.stats().breaker).toBe("OPEN");
  await clock.advance(7999);
  expect(next.stats().breaker).toBe("OPEN");
  await clock.advance(4001);
  expect(next.stats().breaker).toBe("HALF_OPEN");
});

describe("14. naming", () => {
  test.each([1, 2, 3])("maxAttempts %i makes as many calls", async (maxAttempts) => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: statusError(503) }]);
    await rejectionOf(clock.run(retry(fn, { clock, random, maxAttempts })));
    expect(calledAt).toHaveLength(maxAttempts);
  });

  test.each(["retries", "maxRetries", "attempts"])("there is no option %s", async (name) => {
    const error = await rejectionOf(retry(() => 1, { [name]: 3 } as object));
    expect((error as Error).message).toMatch(/^unknown field/);
  });
});

describe("what users of others were bitten by", () => {
  test("an abort is not reported as a timeout, even when both come at once", async () => {
    const { clock } = world();
    const controller = new AbortController();
    const reason = new Error("mine");
    const options = { clock, ...ONCE, attemptTimeoutMs: 128, signal: controller.signal };
    const call = rejectionOf(retry(() => new Promise(() => undefined), options));
    clock.alarm(128, () => controller.abort(reason));
    await clock.advance(1000);
    expect(await call).toBe(reason);
  });

  test("a signal is not aborted after success, when the body is still being read", async () => {
    const { clock } = world();
    let handed: AbortSignal | undefined;
    const options = { clock, attemptTimeoutMs: 100 };
    await retry(({ signal }) => {
      handed = signal;
    }, options);
    await clock.advance(10_000);
    expect(handed?.aborted).toBe(false);
  });

  test("listeners do not pile up on a signal that lives long", async () => {
    const { signal } = new AbortController();
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, hedge: { after: 5 }, policy: FAST });
    for (let n = 0; n < 50; n++) {
      await clock.run(shop.run(() => clock.sleep(20), { signal }));
      await rejectionOf(clock.run(retry(down, { clock, random, signal, maxAttempts: 2 })));
    }
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("retries of one call do not open the breaker of all by themselves", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, breaker: {}, policy: FAST });
    await rejectionOf(clock.run(shop.run(down)));
    expect(shop.stats().breaker).toBe("CLOSED");
    expect(await shop.run(() => 1)).toBe(1);
  });

  test("the very first failure does not open the circuit", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, breaker: {}, policy: ONCE });
    await rejectionOf(clock.run(shop.run(down)));
    expect(shop.stats().breaker).toBe("CLOSED");
  });

  test("a breaker closes from half-open only after as many good probes as asked", async () => {
    const { clock, random } = world();
    const breaker = { minCalls: 1, openMs: 100, halfOpenProbes: 3 };
    const shop = destination("shop", { clock, random, breaker, policy: ONCE });
    await rejectionOf(clock.run(shop.run(down)));
    await clock.advance(150);
    for (let n = 0; n < 2; n++) await clock.run(shop.run(() => 1));
    expect(shop.stats().breaker).toBe("HALF_OPEN");
    await clock.run(shop.run(() => 1));
    expect(shop.stats().breaker).toBe("CLOSED");
  });

  test("one call's timeout aborts nobody else", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, breaker: {}, policy: ONCE });
    const hang = () => new Promise(() => undefined);
    const slow = rejectionOf(shop.run(hang, { attemptTimeoutMs: 100 }));
    const other = shop.run(async ({ signal }) => {
      await clock.sleep(500, signal);
      return signal.aborted;
    });
    await clock.run(slow);
    expect(await clock.run(other)).toBe(false);
    expect(await shop.run(({ signal }) => signal.aborted)).toBe(false);
  });

  test("a call that was exhausted disables no later one", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, policy: FAST });
    await rejectionOf(clock.run(shop.run(down)));
    const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: "ok" }]);
    expect(await clock.run(shop.run(fn))).toBe("ok");
  });

  test("the last answer is not lost when attempts run out", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 503, body: "why it is down" }]);
    const http = createFetch({ clock, random, maxAttempts: 2 }, { fetch: server.fetch });
    const response = await clock.run(http("http://a.example/"));
    expect(await response.text()).toBe("why it is down");
  });

  test("which errors caused retries can be seen, and why there was no further one", async () => {
    const { clock, random } = world();
    const retryBudget = { kind: "GRPC", maxTokens: 1 } as const;
    const shop = destination("shop", { clock, random, retryBudget, policy: FAST });
    const error = await rejectionOf(clock.run(shop.run(down)));
    expect(error).toMatchObject({ reason: "retry-budget", attempts: [{ error: { status: 503 } }] });
  });

  test("a short timeout per attempt goes together with retries", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ returns: "late", afterMs: 5000 }, { returns: "in time" }]);
    const call = retry(fn, { clock, random, attemptTimeoutMs: 100, totalBudgetMs: 2000 });
    expect(await clock.run(call)).toBe("in time");
  });

  test("a classifier that always says again cannot lift the limit", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: new Error("x") }]);
    const classify = () => "transient" as const;
    await rejectionOf(clock.run(retry(fn, { clock, random, classify, maxAttempts: 3 })));
    expect(calledAt).toHaveLength(3);
  });
});
