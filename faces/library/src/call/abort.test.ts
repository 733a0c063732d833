/** Tests of abort on the real clock: an abort always wins at once and leaves nothing behind. */
import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import type { CallOptions } from "./options.ts";
import { retry } from "./retry.ts";
import { deferred, rejectionOf, statusError } from "./world.testing.ts";

/** Timers that keep the process alive. */
function timers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Starts a call, aborts it once `ready`, and checks how it ends. */
async function expectAbort(
  start: (options: CallOptions, ready: () => void) => Promise<unknown>,
): Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const reason = new Error("enough");
  const before = timers();
  const isReady = deferred();
  const call = rejectionOf(start({ signal }, isReady.resolve));
  await isReady.promise;
  // By then the call has started its wait.
  await nextTurn();
  let turns = 0;
  setImmediate(() => turns++);
  controller.abort(reason);
  expect(await call).toBe(reason);
  // Within the same event-loop turn: no timer has to fire first.
  expect(turns).toBe(0);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
  await nextTurn();
  // The test runner has its own timers, which may end in the meantime.
  expect(timers()).toBeLessThanOrEqual(before);
}

/** An operation that fails, with a long wait before its retry. It counts its calls. */
function failing(ready: () => void) {
  const fn = () => {
    fn.calls++;
    ready();
    throw statusError(503);
  };
  fn.calls = 0;
  return fn;
}

const SLOW = {
  initialDelayMs: 60_000,
  maxDelayMs: 60_000,
  jitterType: "NONE",
  totalBudgetMs: 600_000,
} as const;

describe("abort", () => {
  test("before the call: rejects at once and never calls the operation", async () => {
    let calls = 0;
    const reason = new Error("never mind");
    const signal = AbortSignal.abort(reason);
    expect(await rejectionOf(retry(() => calls++, { signal }))).toBe(reason);
    expect(await rejectionOf(destination("d").run(() => calls++, { signal }))).toBe(reason);
    expect(calls).toBe(0);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("during an attempt that honors its signal", async () => {
    let seen: unknown;
    await expectAbort((options, ready) =>
      retry((context) => {
        ready();
        return new Promise((_, reject) => {
          context.signal.addEventListener("abort", () => {
            seen = context.signal.reason;
            reject(new Error("some other error"));
          });
        });
      }, options),
    );
    expect(seen).toMatchObject({ message: "enough" });
  });

  test("during an attempt that ignores its signal", async () => {
    await expectAbort((options, ready) =>
      retry(() => {
        ready();
        return new Promise(() => undefined);
      }, options),
    );
  });

  test("during a wait: the operation is not called again", async () => {
    let calls = 0;
    await expectAbort((options, ready) =>
      retry(
        () => {
          calls++;
          ready();
          throw statusError(503);
        },
        { ...options, ...SLOW },
      ),
    );
    expect(calls).toBe(1);
  });

  test("during a wait rejects within 10 ms", async () => {
    const tries: number[] = [];
    for (let n = 0; n < 5; n++) {
      const controller = new AbortController();
      const options = { ...SLOW, signal: controller.signal };
      const call = rejectionOf(
        retry(
          failing(() => undefined),
          options,
        ),
      );
      await nextTurn();
      const abortedAt = performance.now();
      controller.abort();
      await call;
      tries.push(performance.now() - abortedAt);
    }
    // The best of five, because a busy machine may pause the process at any moment. One after the
    // other, because a pause would affect all of them at once.
    expect(Math.min(...tries)).toBeLessThan(10);
  });

  test("during a destination's wait: the token is returned", async () => {
    const budget = { kind: "TOKENS", maxTokens: 14 } as const;
    const shop = destination("shop", { policy: SLOW, retryBudget: budget });
    await expectAbort((options, ready) => shop.run(failing(ready), options));
    expect(shop.stats()).toMatchObject({ retryBudget: true, retries: 0 });
  });

  test("while the call waits for a slot", async () => {
    const shop = destination("shop", { concurrency: { algorithm: "FIXED", max: 1, queue: 5 } });
    const holder = deferred();
    const held = shop.run(() => holder.promise);
    let calls = 0;
    await nextTurn();
    await expectAbort((options, ready) => {
      const call = shop.run(() => calls++, options);
      ready();
      return call;
    });
    holder.resolve();
    await held;
    expect(calls).toBe(0);
    expect(await shop.run(() => "next")).toBe("next");
  });

  test("while the rate limit holds the call", async () => {
    const shop = destination("shop", { rate: { perSecond: 0.1, burst: 1 } });
    await shop.run(() => 1);
    let calls = 0;
    await expectAbort((options, ready) => {
      const call = shop.run(() => calls++, options);
      ready();
      return call;
    });
    expect(calls).toBe(0);
  });

  test("while the call waits for an open circuit", async () => {
    const breaker = { minCalls: 1, openMs: 20_000 };
    const shop = destination("shop", { breaker, policy: { maxAttempts: 1 } });
    await rejectionOf(shop.run(() => Promise.reject(statusError(500))));
    await expectAbort((options, ready) => {
      const call = shop.run(() => 1, { ...options, patience: "wait" });
      ready();
      return call;
    });
  });

  test("during reauthenticate", async () => {
    const renewal = deferred();
    const asked = deferred();
    const shop = destination("shop", {
      reauthenticate: () => {
        asked.resolve();
        return renewal.promise;
      },
    });
    let calls = 0;
    await expectAbort((options, ready) => {
      void asked.promise.then(ready);
      return shop.run(() => {
        calls++;
        throw statusError(401);
      }, options);
    });
    renewal.resolve();
    await nextTurn();
    expect(calls).toBe(1);
  });

  test("during a hedged attempt ends all copies", async () => {
    const shop = destination("shop", { hedge: { after: 1, max: 2 }, idempotent: true });
    const reasons: unknown[] = [];
    await expectAbort((options, ready) => {
      let running = 0;
      return shop.run(({ signal }) => {
        signal.addEventListener("abort", () => reasons.push(signal.reason));
        if (++running === 3) ready();
        return new Promise(() => undefined);
      }, options);
    });
    expect(reasons).toHaveLength(3);
    expect(new Set(reasons).size).toBe(1);
  });

  test("by the operation itself, during its own call", async () => {
    const controller = new AbortController();
    const reason = new Error("from inside");
    const call = retry(
      () => {
        controller.abort(reason);
        return "too late";
      },
      { signal: controller.signal },
    );
    expect(await rejectionOf(call)).toBe(reason);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });
});

describe("a call that is over", () => {
  test("has no listener on its caller's signal, however it ended", async () => {
    const { signal } = new AbortController();
    await retry(() => 1, { signal });
    await rejectionOf(retry(() => Promise.reject(statusError(404)), { signal }));
    await destination("d").run(() => 1, { signal });
    const once = { signal, maxAttempts: 1 };
    await rejectionOf(destination("d").run(() => Promise.reject(statusError(503)), once));
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("ignores a later abort", async () => {
    const controller = new AbortController();
    let handed: AbortSignal | undefined;
    const value = await retry(
      ({ signal }) => {
        handed = signal;
        return "body";
      },
      { signal: controller.signal },
    );
    controller.abort();
    expect(value).toBe("body");
    expect(handed?.aborted).toBe(false);
  });
});
