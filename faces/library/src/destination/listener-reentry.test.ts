/** Tests of callbacks that change the call that invokes them: above all, that abort it. */
import { describe, expect, test } from "vitest";
import type { CallEvent, CallEventType } from "../call/call-event.ts";
import { retry } from "../call/retry.ts";
import { rejectionOf, statusError, world } from "../call/world.testing.ts";
import { destination } from "./destination.ts";

/** A call that emits every kind of event. The listener aborts it on the event `type`. */
async function abortedAt(type: CallEventType) {
  const { clock, random } = world();
  const controller = new AbortController();
  const { signal } = controller;
  const reason = new Error("enough");
  const types: string[] = [];
  let calls = 0;
  let fallbacks = 0;
  const onEvent = (event: CallEvent) => {
    types.push(event.type);
    if (event.type === type) controller.abort(reason);
  };
  const api = destination("api", {
    clock,
    random,
    policy: { maxAttempts: 3 },
    breaker: { minCalls: 2, openMs: 1000 },
    retryBudget: { kind: "TOKENS", costPerRetry: 100 },
    concurrency: { algorithm: "FIXED", max: 5 },
    hedge: { after: 50 },
    idempotent: true,
    reauthenticate: () => undefined,
  });
  const fn = async () => {
    calls++;
    if (type === "hedge") await clock.sleep(500);
    throw statusError(type === "reauthenticate" ? 401 : 503);
  };
  const run = (inner: AbortSignal) =>
    api.run<number>(fn, {
      signal: inner,
      patience: "wait",
      onEvent,
      fallback: () => fallbacks++,
    });
  const isNested = type === "yield";
  const call = isNested ? retry((outer) => run(outer.signal), { clock, signal }) : run(signal);
  expect(await clock.run(rejectionOf(call))).toBe(reason);
  const callsThen = calls;
  await clock.advance(100_000);
  return { types, calls: calls - callsThen, callsThen, fallbacks, api, clock };
}

describe("an abort by the listener of", () => {
  const types: readonly (readonly [CallEventType, number])[] = [
    ["yield", 0],
    ["attempt-failed", 1],
    ["retry", 1],
    ["breaker", 2],
    ["hedge", 1],
    ["reauthenticate", 1],
  ];
  test.each(types)("%s ends the call: %i attempts, and none after it", async (type, calls) => {
    const seen = await abortedAt(type);
    expect(seen).toMatchObject({ calls: 0, callsThen: calls, fallbacks: 0 });
    expect(seen.types.filter((type) => type === "give-up")).toHaveLength(1);
    expect(seen.types.at(-1)).toBe("give-up");
    expect(seen.api.stats().inFlight).toBe(0);
    expect(seen.clock.pending()).toBe(0);
  });

  test("a wait returns the retry's token", async () => {
    for (const type of ["attempt-failed", "retry"] as const) {
      const { api } = await abortedAt(type);
      expect(api.save().guards.retryBudget?.tokens).toBe(500);
    }
  });
});

test("an abort by the listener of the fallback event: the fallback does not run", async () => {
  const { clock, random } = world();
  const controller = new AbortController();
  const reason = new Error("enough");
  let asked = 0;
  const api = destination("api", { clock, random });
  const call = api.run<number>(() => Promise.reject(statusError(503)), {
    fallback: () => asked++,
    maxAttempts: 1,
    signal: controller.signal,
    onEvent: ({ type }) => void (type === "fallback" && controller.abort(reason)),
  });
  expect(await clock.run(rejectionOf(call))).toBe(reason);
  expect(asked).toBe(0);
});

describe("a classifier that aborts its own call", () => {
  test("ends it once: no slot is returned twice, and no other call loses its timeout", async () => {
    const { clock, random } = world();
    const controller = new AbortController();
    const reason = new Error("enough");
    const concurrency = { algorithm: "FIXED", max: 5 } as const;
    const policy = { maxAttempts: 1, attemptTimeoutMs: 1000 };
    const api = destination("api", { clock, random, concurrency, policy });
    const others = [1, 2].map(() => rejectionOf(api.run(() => new Promise(() => undefined))));
    const call = api.run(() => clock.sleep(10).then(() => Promise.reject(statusError(503))), {
      signal: controller.signal,
      classify: () => {
        controller.abort(reason);
        return undefined;
      },
    });
    expect(await clock.run(rejectionOf(call))).toBe(reason);
    expect(api.stats().inFlight).toBe(2);
    const errors = await clock.run(Promise.all(others));
    expect(errors).toMatchObject([{ reason: "attempts" }, { reason: "attempts" }]);
    await clock.advance(0);
    expect(api.stats().inFlight).toBe(0);
    expect(clock.pending()).toBe(0);
  });

  test("after a success: the abort wins", async () => {
    const { clock } = world();
    const controller = new AbortController();
    const reason = new Error("enough");
    const classify = () => void controller.abort(reason);
    const call = retry(() => "done", { clock, signal: controller.signal, classify });
    expect(await clock.run(rejectionOf(call))).toBe(reason);
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });
});

describe("a thenable that is not a promise", () => {
  const down = Object.assign(new Error("down"), { code: "ECONNREFUSED" });
  const kinds: readonly (readonly [string, () => unknown])[] = [
    ["whose then throws", () => thenable(() => raise(down))],
    ["whose then cannot be read", () => new Proxy({}, { get: () => raise(down) })],
    ["that resolves with a promise that fails", () => thenable((ok) => ok(Promise.reject(down)))],
    ["that settles twice", () => thenable((_, fail) => [fail(down), fail(new Error("twice"))])],
  ];

  test.each(kinds)(
    "%s is a failed attempt: it is retried, and the next waiting call is admitted",
    async (_, make) => {
      const { clock, random } = world();
      const concurrency = { algorithm: "FIXED", max: 1, queue: 1 } as const;
      const api = destination("api", { clock, random, concurrency, policy: { maxAttempts: 2 } });
      let calls = 0;
      const call = rejectionOf(api.run(() => [calls++, make()][1]));
      const next = api.run(() => "let in");
      expect(await clock.run(next)).toBe("let in");
      expect(await clock.run(call)).toMatchObject({ reason: "attempts", cause: down });
      expect(calls).toBe(2);
      expect(api.stats()).toMatchObject({ inFlight: 0, retries: 1, successes: 1, failures: 1 });
    },
  );

  test("that fails during its abort is settled once", async () => {
    const { clock, random } = world();
    const controller = new AbortController();
    const reason = new Error("enough");
    const concurrency = { algorithm: "FIXED", max: 5 } as const;
    const api = destination("api", { clock, random, concurrency });
    const other = api.run(() => clock.sleep(50));
    const call = api.run(
      ({ signal }) =>
        thenable((_, fail) => signal.addEventListener("abort", () => fail(statusError(503)))),
      { signal: controller.signal },
    );
    await clock.advance(10);
    controller.abort(reason);
    expect(await rejectionOf(call)).toBe(reason);
    expect(api.stats().inFlight).toBe(1);
    await clock.run(other);
    expect(api.stats()).toMatchObject({ inFlight: 0, retries: 0 });
  });
});

function raise(error: unknown): never {
  throw error;
}

/** An object with `then` that is not a promise. */
function thenable(
  run: (ok: (value: unknown) => void, fail: (error: unknown) => void) => void,
): PromiseLike<unknown> {
  // biome-ignore lint/suspicious/noThenProperty: that is what it is for
  return { then: run } as unknown as PromiseLike<unknown>;
}
