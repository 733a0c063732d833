/** Tests of wrapped functions: their context, and options for one call. */
import { expect, expectTypeOf, test } from "vitest";
import type { AttemptContext } from "../call/options.ts";
import { rejectionOf, statusError, untilAborted, world } from "../call/world.testing.ts";
import { destination } from "./destination.ts";

function apiOf() {
  const { clock, random } = world();
  const policy = { maxAttempts: 3, initialDelayMs: 10, jitterType: "NONE" } as const;
  return { clock, api: destination("api", { clock, random, policy }) };
}

test("a function wrapped with its context gets it before its own arguments", async () => {
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

test("with() gives one call its signal, and leaves the arguments as they are", async () => {
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

test("this is kept, with a context and with options", async () => {
  const { api } = apiOf();
  const counter = {
    step: 5,
    plain: api.wrap(function (this: { step: number }, by: number) {
      return this.step * by;
    }),
    told: api.wrapWithContext(function (this: { step: number }, { attempt }, by: number) {
      return this.step * by + attempt;
    }),
  };
  expect(await counter.plain(2)).toBe(10);
  expect(await counter.told(2)).toBe(11);
  expect(await counter.told.with({ maxAttempts: 1 }).call(counter, 3)).toBe(16);
});
