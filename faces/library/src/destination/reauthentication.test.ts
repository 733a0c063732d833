/** Tests of reauthenticate: a 401 gets new credentials once, and is never simply retried. */
import { describe, expect, test } from "vitest";
import { deferred, rejectionOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { type DestinationInput, destination } from "./destination.ts";

function shopOf(input: DestinationInput = {}) {
  const given = world("credentials");
  const { clock, random, onEvent } = given;
  return { ...given, shop: destination("shop", { clock, random, onEvent, ...input }) };
}

/** A service that takes one token only. */
function guarded(good: () => string, token: () => string) {
  const fn = async () => {
    fn.calls++;
    if (token() !== good()) throw statusError(401);
    return "in";
  };
  fn.calls = 0;
  return fn;
}

describe("a 401", () => {
  test("is not retried where nobody can renew", async () => {
    const { clock, shop } = shopOf();
    let calls = 0;
    const fn = () => {
      calls++;
      throw statusError(401);
    };
    expect(await rejectionOf(clock.run(shop.run(fn)))).toMatchObject({ status: 401 });
    expect(calls).toBe(1);
  });

  test("gets new credentials, and the call is repeated at once", async () => {
    let token = "old";
    const { clock, shop, events } = shopOf({
      reauthenticate: () => {
        token = "new";
      },
    });
    const fn = guarded(
      () => "new",
      () => token,
    );
    expect(await clock.run(shop.run(fn))).toBe("in");
    expect(fn.calls).toBe(2);
    expect(clock.now()).toBe(START_AT);
    expect(events.map(({ type }) => type)).toEqual(["attempt-failed", "reauthenticate", "success"]);
  });

  test("asks anew when the renewal before never came back", async () => {
    let token = "old";
    let renewals = 0;
    const { clock, shop } = shopOf({
      policy: { totalBudgetMs: 1000, attemptTimeoutMs: 500 },
      reauthenticate: async () => {
        if (++renewals === 1) await new Promise(() => undefined);
        token = "new";
      },
    });
    const fn = guarded(
      () => "new",
      () => token,
    );
    expect(await rejectionOf(clock.run(shop.run(fn)))).toMatchObject({ status: 401 });
    expect(clock.now()).toBe(START_AT + 1000);
    expect(await clock.run(shop.run(fn))).toBe("in");
  });

  test("leaves a newer renewal alone when an older waiter gives up", async () => {
    let renewals = 0;
    let finish = () => {};
    const { clock, shop } = shopOf({
      policy: { totalBudgetMs: 1000, attemptTimeoutMs: 500 },
      reauthenticate: () =>
        ++renewals === 1
          ? new Promise(() => undefined)
          : new Promise<void>((resolve) => {
              finish = resolve;
            }),
    });
    const refused = () => Promise.reject(statusError(401));
    const run = () => shop.run(refused).catch(() => "refused");
    const calls = [run()];
    await clock.advance(300);
    calls.push(run());
    // The first gives up on the renewal that hangs; the next asks anew; then the second gives up.
    await clock.advance(800);
    calls.push(run());
    await clock.advance(300);
    calls.push(run());
    await clock.advance(1);
    finish();
    expect(await clock.run(Promise.all(calls))).toEqual(Array(4).fill("refused"));
    expect(renewals).toBe(2);
  });

  test("is repeated even by a policy of one attempt, and only once", async () => {
    let renewals = 0;
    const { clock, shop } = shopOf({
      policy: { maxAttempts: 1 },
      reauthenticate: () => {
        renewals++;
      },
    });
    const fn = guarded(
      () => "other",
      () => "mine",
    );
    const error = await rejectionOf(clock.run(shop.run(fn)));
    expect(error).toMatchObject({ reason: "not-retryable", cause: { status: 401 } });
    expect(error).toMatchObject({ attempts: [{ attempt: 1, status: 401 }, { attempt: 2 }] });
    expect(fn.calls).toBe(2);
    expect(renewals).toBe(1);
  });

  test("is repeated by a policy of one attempt though the rate makes it wait", async () => {
    let token = "old";
    const { clock, shop } = shopOf({
      policy: { maxAttempts: 1 },
      rate: { perSecond: 10, burst: 1 },
      reauthenticate: () => {
        token = "new";
      },
    });
    const fn = guarded(
      () => "new",
      () => token,
    );
    expect(await clock.run(shop.run(fn))).toBe("in");
    expect(clock.now() - START_AT).toBe(100);
  });

  test("does not repeat a call that has nothing to send twice", async () => {
    const { clock, shop } = shopOf({ reauthenticate: () => undefined });
    const fn = guarded(
      () => "other",
      () => "mine",
    );
    await rejectionOf(clock.run(shop.run(fn, { once: true })));
    expect(fn.calls).toBe(1);
  });

  test("costs no token of the retry budget", async () => {
    const retryBudget = {
      kind: "TOKENS",
      maxTokens: 1,
      costPerRetry: 1,
      costPerThrottle: 1,
    } as const;
    let token = "old";
    const { clock, shop } = shopOf({
      retryBudget,
      reauthenticate: () => {
        token = "new";
      },
    });
    const fn = guarded(
      () => "new",
      () => token,
    );
    await clock.run(shop.run(fn));
    expect(shop.stats().retryBudget).toBe(true);
  });
});

describe("the renewal", () => {
  test("is shared by calls that fail at the same time", async () => {
    let renewals = 0;
    let token = "old";
    const { clock, shop } = shopOf({
      reauthenticate: async () => {
        renewals++;
        await clock.sleep(50);
        token = "new";
      },
    });
    const fn = guarded(
      () => "new",
      () => token,
    );
    const values = await clock.run(Promise.all([shop.run(fn), shop.run(fn), shop.run(fn)]));
    expect(values).toEqual(["in", "in", "in"]);
    expect(renewals).toBe(1);
  });

  test("is made anew when credentials expire again later", async () => {
    let renewals = 0;
    let [good, token] = ["1", "0"];
    const { clock, shop } = shopOf({
      reauthenticate: () => {
        renewals++;
        token = good;
      },
    });
    const fn = guarded(
      () => good,
      () => token,
    );
    await clock.run(shop.run(fn));
    good = "2";
    await clock.run(shop.run(fn));
    expect(renewals).toBe(2);
  });

  test("that fails ends the call with its own error", async () => {
    const own = new Error("password changed");
    const { clock, shop } = shopOf({ reauthenticate: () => Promise.reject(own) });
    expect(await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(401)))))).toBe(
      own,
    );
    const throws = () => {
      throw own;
    };
    const other = shopOf({ reauthenticate: throws });
    const call = other.shop.run(() => Promise.reject(statusError(401)));
    expect(await rejectionOf(other.clock.run(call))).toBe(own);
  });

  test("that never ends is given up with the total budget", async () => {
    const { promise } = deferred();
    const { clock, shop } = shopOf({
      reauthenticate: () => promise,
      policy: { totalBudgetMs: 2000 },
    });
    const call = shop.run(() => Promise.reject(statusError(401)));
    expect(await rejectionOf(clock.run(call))).toMatchObject({ status: 401 });
    expect(clock.now() - START_AT).toBe(2000);
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });
});
