/** Tests of fallbacks: when they run, what they get, and what happens if they decline. */
import { getEventListeners } from "node:events";
import { RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import type { Fallback, FallbackContext, RunOptions } from "../call/options.ts";
import { retry } from "../call/retry.ts";
import { rejectionOf, reportsOf, START_AT, statusError, world } from "../call/world.testing.ts";
import { createFetch } from "../http/fetch.ts";
import { flakyFetch } from "../testing.ts";
import { type DestinationInput, destination } from "./destination.ts";
import { lastGood } from "./last-success-fallback.ts";

const FAST = { initialDelayMs: 10, jitterType: "NONE", maxAttempts: 2 } as const;

function shopOf(input: DestinationInput = {}) {
  const given = world("fallback");
  const { clock, random, onEvent } = given;
  const policy = FAST;
  return { ...given, shop: destination("shop", { clock, random, onEvent, policy, ...input }) };
}

const down = () => Promise.reject(statusError(503));

describe("a fallback", () => {
  test("runs for an exhausted call, with the error and the context", async () => {
    const { clock, shop, events } = shopOf();
    let received: unknown[] = [];
    const fallback = (...args: unknown[]) => {
      received = args;
      return "substitute";
    };
    expect(await clock.run(shop.run(down, { fallback, key: "eu" }))).toBe("substitute");
    expect(received[0]).toMatchObject({ code: "GAVE_UP", reason: "attempts" });
    expect(received[1]).toEqual({ destination: "shop", key: "eu", attempts: 2, at: START_AT + 10 });
    expect(events.slice(-2).map(({ type }) => type)).toEqual(["give-up", "fallback"]);
  });

  test("runs for an open circuit", async () => {
    const { clock, shop } = shopOf({ breaker: { minCalls: 1 } });
    await rejectionOf(clock.run(shop.run(down)));
    expect(await shop.run(() => "never", { fallback: () => "substitute" })).toBe("substitute");
  });

  test("does not run for the caller's own mistakes", async () => {
    const { clock, shop } = shopOf();
    const fallback = () => "substitute";
    const notFound = clock.run(shop.run(() => Promise.reject(statusError(404)), { fallback }));
    expect(await rejectionOf(notFound)).toMatchObject({ status: 404 });
    const signal = AbortSignal.abort(new Error("gone"));
    const aborted = shop.run(() => "x", { fallback, signal });
    expect(await rejectionOf(aborted)).toMatchObject({ message: "gone" });
  });

  test("of the destination runs for every call without its own fallback", async () => {
    const fallback: Fallback<never> = () => "general" as never;
    const { clock, shop } = shopOf({ fallback });
    expect(await clock.run(shop.run(down))).toBe("general");
    expect(await clock.run(shop.run(down, { fallback: () => "special" }))).toBe("special");
  });

  test("runs after onExhausted, if that declines", async () => {
    const asked: string[] = [];
    const decline = (name: string) => (error: unknown) => {
      asked.push(name);
      throw error;
    };
    const { clock, shop } = shopOf({
      onExhausted: decline("onExhausted"),
      fallback: decline("fallback"),
    });
    expect(await rejectionOf(clock.run(shop.run(down)))).toMatchObject({ code: "GAVE_UP" });
    expect(asked).toEqual(["onExhausted", "fallback"]);
    expect(await clock.run(shop.run(down, { fallback: () => "own" }))).toBe("own");
    expect(asked).toHaveLength(2);
  });

  test("gets a hand-off only for calls that are repeatable", async () => {
    const { clock, shop } = shopOf();
    const request = { url: "http://shop.example/orders" };
    const handedOver = async (options: RunOptions<unknown>) => {
      const fallback = (_: unknown, { handOff: handOver }: FallbackContext) => handOver;
      return await clock.run(shop.run<unknown>(down, { fallback, ...options }));
    };
    expect(await handedOver({})).toBeUndefined();
    expect(await handedOver({ request })).toBeUndefined();
    expect(await handedOver({ request, idempotencyKey: "k" })).toEqual({
      request,
      idempotencyKey: "k",
    });
    expect(await handedOver({ request, idempotent: true })).toMatchObject({ request });
    expect(await handedOver({ request, method: "PUT" })).toMatchObject({ request });
    const key = { request, idempotencyKey: "k" };
    const below = (nested: RunOptions["nested"]) =>
      clock.run(retry(({ signal }) => handedOver({ ...key, signal, nested }), { clock }));
    expect(await below("yield")).toBeUndefined();
    expect(await below("retry")).toBeUndefined();
  });

  test("that throws rejects the call with its error", async () => {
    const { clock, shop } = shopOf();
    const own = new Error("no substitute either");
    const fallback = () => {
      throw own;
    };
    expect(await rejectionOf(clock.run(shop.run(down, { fallback })))).toBe(own);
    const later = () => Promise.reject(own);
    expect(await rejectionOf(clock.run(shop.run(down, { fallback: later })))).toBe(own);
  });

  test("that never ends is ended by an abort", async () => {
    const { clock, shop } = shopOf();
    const controller = new AbortController();
    const { signal } = controller;
    const reason = new Error("enough");
    const fallback = () => new Promise<never>(() => undefined);
    const call = rejectionOf(shop.run(down, { signal, fallback }));
    await clock.advance(1000);
    controller.abort(reason);
    expect(await call).toBe(reason);
  });

  test("that has ended leaves no listener behind", async () => {
    const { clock, shop } = shopOf();
    const { signal } = new AbortController();
    expect(await clock.run(shop.run<string>(down, { signal, fallback: () => "substitute" }))).toBe(
      "substitute",
    );
    await rejectionOf(clock.run(shop.run(down, { signal, fallback: down })));
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("for a call with keepLast gets an error, and may decline", async () => {
    const { clock, shop } = shopOf();
    const overrides = { classify: () => "transient" as const, keepLast: true };
    const errors: unknown[] = [];
    const decline = (error: unknown): string => {
      errors.push(error);
      throw error;
    };
    const kept = shop.run(() => "last value", { ...overrides, fallback: decline });
    expect(await clock.run(kept)).toBe("last value");
    expect(errors[0]).toBeInstanceOf(RedriveError);
    const served = shop.run(() => "last value", { ...overrides, fallback: () => "substitute" });
    expect(await clock.run(served)).toBe("substitute");
  });
});

test("a `remember` that throws does not affect the call, and is reported", async () => {
  const { clock, shop } = shopOf();
  const broken = new Error("memory is full");
  const remember = () => {
    throw broken;
  };
  const fallback = Object.assign(() => "substitute", { remember });
  const reports = await reportsOf(async () => {
    expect(await clock.run(shop.run(() => "fine", { fallback }))).toBe("fine");
  });
  expect(reports).toEqual({ unhandled: [], written: [broken] });
});

describe("lastGood", () => {
  test("returns the last success while it is fresh enough", async () => {
    const { clock, shop } = shopOf({ fallback: lastGood({ maxAgeMs: 1000 }) });
    await clock.run(shop.run(() => "good"));
    await clock.run(shop.run(() => "better"));
    await clock.advance(900);
    expect(await clock.run(shop.run(down))).toBe("better");
    await clock.advance(200);
    expect(await rejectionOf(clock.run(shop.run(down)))).toMatchObject({ reason: "attempts" });
  });

  test("serves as onExhausted too", async () => {
    const { clock, shop } = shopOf({ onExhausted: lastGood({ maxAgeMs: 1000 }) });
    await clock.run(shop.run(() => "good"));
    expect(await clock.run(shop.run(down))).toBe("good");
  });

  test("returns a response with a readable body every time", async () => {
    const { clock, shop } = shopOf({ fallback: lastGood({ maxAgeMs: 1000 }) });
    const { fetch } = flakyFetch(clock, [{ status: 200, body: "menu" }, { status: 503 }]);
    const http = createFetch(shop, { fetch });
    const read = async () => (await clock.run(http("http://shop.example/menu"))).text();
    expect([await read(), await read(), await read()]).toEqual(["menu", "menu", "menu"]);
  });

  test("keeps one value per key", async () => {
    const { clock, shop } = shopOf({ fallback: lastGood({ maxAgeMs: 1000 }) });
    await clock.run(shop.run(() => "eu", { key: "eu" }));
    expect(await clock.run(shop.run(down, { key: "eu" }))).toBe("eu");
    expect(await rejectionOf(clock.run(shop.run(down, { key: "us" })))).toBeInstanceOf(
      RedriveError,
    );
    expect(await rejectionOf(clock.run(shop.run(down)))).toBeInstanceOf(RedriveError);
  });

  test("refuses an invalid age", () => {
    expect(() => lastGood({ maxAgeMs: 0 })).toThrow("maxAgeMs must be 1 to 31536000000, got 0");
  });

  test("deletes the least recently written keys", () => {
    const fallback = lastGood<number>({ maxAgeMs: 1000 });
    const contextOf = (key: string) => ({ destination: "d", key, attempts: 1, at: START_AT });
    for (let n = 0; n <= 10_000; n++) fallback.remember?.(n, contextOf(`k${n}`));
    const error = new Error("down");
    expect(() => fallback(error, contextOf("k0"))).toThrow(error);
    expect(fallback(error, contextOf("k1"))).toBe(1);
  });
});
