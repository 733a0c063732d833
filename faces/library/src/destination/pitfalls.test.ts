/**
 * Pitfalls: bugs that other libraries have or had, and that this one must not have. The numbers are
 * those of the peer study. Tests that need sockets are in `test/library/pitfalls-sockets.test.ts`.
 */
import type { Outcome, resolvePolicy } from "@redrive/core";
import { describe, expect, test, vi } from "vitest";
import type { RetryOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { createFetch } from "../http/fetch.ts";
import { flaky, flakyFetch, seededRandom, virtualClock } from "../testing.ts";
import { destination } from "./destination.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;
const ONCE = { maxAttempts: 1 } as const;
const down = () => Promise.reject(statusError(503));

test("1. body replay: a stream is sent once, and a body that is sent twice is complete", async () => {
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

  test("a TimeoutError of the caller's signal is not an attempt timeout", async () => {
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

  test("a TimeoutError that the operation throws is retried", async () => {
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
    idempotent: true,
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

test("3. a pushback that forbids retries is honored", async () => {
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

  test("absurd values end the call", async () => {
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
  /** The waits of one call whose operation fails for a long time. */
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

  test("waits beyond the maximum of the system's timers do not end at once", async () => {
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

test("6. windows expire by time: failures of a minute ago do not open the breaker", async () => {
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

test("7. failure path cost: memory does not grow with the calls", async () => {
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

describe("8. options that do nothing: every field of a policy has an effect", () => {
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

test("9. bail that does not bail: a terminal error ends the call and does not change the options", async () => {
  const { clock, random } = world();
  const { fn, calledAt } = flaky(clock, [{ throws: statusError(400) }]);
  const options = Object.freeze({ clock, random, maxAttempts: 4 });
  await rejectionOf(clock.run(retry(fn, options)));
  await clock.advance(600_000);
  expect(calledAt).toHaveLength(1);
});

test("10. timers: an aborted wait leaves no timer and takes no token", async () => {
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

  test("of a network is recognized by its cause first and by its message last", async () => {
    const cause = Object.assign(new Error("?"), { code: "ECONNRESET" });
    expect(await callsFor(new TypeError("an unknown message", { cause }))).toBe(2);
    for (const message of ["fetch failed", "Failed to fetch", "Load failed"]) {
      expect(await callsFor(new TypeError(message))).toBe(2);
    }
  });

  test("of a program is not retried, unless the caller allows it", async () => {
    const fault = new TypeError("x.map is not a function");
    expect(await callsFor(fault)).toBe(1);
    const classify = () => "transient" as const;
    expect(await callsFor(fault, { classify })).toBe(2);
  });
});

describe("12. signals are expensive", () => {
  test("none is created unless it is read", async () => {
    const made = vi.fn();
    class Counted extends AbortController {
      constructor() {
        super();
        made();
      }
    }
    vi.stubGlobal("AbortController", Counted);
    const { clock, random } = world();
    const shop = destination("shop", {
      clock,
      random,
      breaker: {},
      hedge: { after: 5 },
      idempotent: true,
    });
    await retry(() => 1);
    await clock.run(shop.run(() => clock.sleep(1)));
    expect(made).not.toHaveBeenCalled();
    await retry(({ signal }) => signal.aborted);
    expect(made).toHaveBeenCalledTimes(1);
  });

  test("none is aborted on success, and each read returns the same one", async () => {
    const signals: AbortSignal[] = [];
    await retry((context) => void signals.push(context.signal, context.signal));
    expect(signals[0]).toBe(signals[1]);
    expect(signals[0]?.aborted).toBe(false);
  });

  test("one that is read after the attempt was aborted is already aborted", async () => {
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

test("13. hydration: a breaker that has just opened is restored open, with its remaining time", async () => {
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
  test.each([1, 2, 3])("maxAttempts %i makes that number of calls", async (maxAttempts) => {
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
