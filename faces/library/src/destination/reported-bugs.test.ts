/** Reported bugs: what users of other libraries reported, and this one must not have. */
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { retry } from "../call/retry.ts";
import { rejectionOf, statusError, world } from "../call/world.testing.ts";
import { createFetch } from "../http/fetch.ts";
import { flaky, flakyFetch } from "../testing.ts";
import { destination } from "./destination.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE" } as const;
const ONCE = { maxAttempts: 1 } as const;
const down = () => Promise.reject(statusError(503));

describe("bugs that users of other libraries reported", () => {
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

  test("a signal is not aborted after success, while the body is still being read", async () => {
    const { clock } = world();
    let handed: AbortSignal | undefined;
    const options = { clock, attemptTimeoutMs: 100 };
    await retry(({ signal }) => {
      handed = signal;
    }, options);
    await clock.advance(10_000);
    expect(handed?.aborted).toBe(false);
  });

  test("listeners do not accumulate on a long-lived signal", async () => {
    const { signal } = new AbortController();
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, hedge: { after: 5 }, policy: FAST });
    for (let n = 0; n < 50; n++) {
      await clock.run(shop.run(() => clock.sleep(20), { signal }));
      await rejectionOf(clock.run(retry(down, { clock, random, signal, maxAttempts: 2 })));
    }
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("retries of one call alone do not open the shared breaker", async () => {
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

  test("a breaker closes from half-open only after the required number of good probes", async () => {
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

  test("one call's timeout aborts no other call", async () => {
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

  test("an exhausted call does not disable later calls", async () => {
    const { clock, random } = world();
    const shop = destination("shop", { clock, random, policy: FAST });
    await rejectionOf(clock.run(shop.run(down)));
    const { fn } = flaky(clock, [{ throws: statusError(503) }, { returns: "ok" }]);
    expect(await clock.run(shop.run(fn))).toBe("ok");
  });

  test("the last response is not lost when attempts run out", async () => {
    const { clock, random } = world();
    const server = flakyFetch(clock, [{ status: 503, body: "why it is down" }]);
    const http = createFetch({ clock, random, maxAttempts: 2 }, { fetch: server.fetch });
    const response = await clock.run(http("http://a.example/"));
    expect(await response.text()).toBe("why it is down");
  });

  test("the error shows what caused the retries, and why they stopped", async () => {
    const { clock, random } = world();
    const retryBudget = { kind: "GRPC", maxTokens: 1 } as const;
    const shop = destination("shop", { clock, random, retryBudget, policy: FAST });
    const error = await rejectionOf(clock.run(shop.run(down)));
    expect(error).toMatchObject({ reason: "retry-budget", attempts: [{ error: { status: 503 } }] });
  });

  test("a short timeout per attempt works together with retries", async () => {
    const { clock, random } = world();
    const { fn } = flaky(clock, [{ returns: "late", afterMs: 5000 }, { returns: "in time" }]);
    const call = retry(fn, { clock, random, attemptTimeoutMs: 100, totalBudgetMs: 2000 });
    expect(await clock.run(call)).toBe("in time");
  });

  test("a classifier that always retries cannot exceed the limit", async () => {
    const { clock, random } = world();
    const { fn, calledAt } = flaky(clock, [{ throws: new Error("x") }]);
    const classify = () => "transient" as const;
    await rejectionOf(clock.run(retry(fn, { clock, random, classify, maxAttempts: 3 })));
    expect(calledAt).toHaveLength(3);
  });
});
