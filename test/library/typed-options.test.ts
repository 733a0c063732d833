/**
 * Types: what compiles. `tsc` checks this file (`npm run check`), with `exactOptionalPropertyTypes`, as many
 * programs have it. The tests run as well, because a type that compiles must also work.
 */
import {
  type Classify,
  createFetch,
  type DestinationInput,
  destination,
  type FetchOptions,
  type HedgeOptions,
  lastGood,
  type RedriveInit,
  type RetryOptions,
  type RunOptions,
} from "redrive";
import type { ChaosOptions } from "redrive/chaos";
import type {
  ConsumeOptions,
  RabbitOptions,
  RedisStreamsOptions,
  SqsOptions,
} from "redrive/consume";
import type { HandOffOptions } from "redrive/hand-off";
import type { IdempotencyOptions } from "redrive/idempotency";
import type { TelemetryOptions } from "redrive/otel";
import type { OverloadLimiterOptions } from "redrive/server";
import { describe, expect, expectTypeOf, test } from "vitest";

/** The optional fields of an object that refuse `undefined`. */
type Refusing<T> = {
  [Field in keyof T]-?: object extends Pick<T, Field>
    ? { [Name in Field]: undefined } extends Pick<T, Field>
      ? never
      : Field
    : never;
}[keyof T];

test("every optional field accepts undefined", () => {
  expectTypeOf<Refusing<RetryOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<RunOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<DestinationInput>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<HedgeOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<FetchOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Pick<RedriveInit, "body" | "redrive">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<ChaosOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<ConsumeOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<RabbitOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<RedisStreamsOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<SqsOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<HandOffOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<IdempotencyOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<OverloadLimiterOptions>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<TelemetryOptions>>().toEqualTypeOf<never>();
  type Guard = "retryBudget" | "breaker" | "concurrency" | "rate" | "hedge" | "retryAfterGate";
  type Part<Name extends Guard> = Exclude<DestinationInput[Name], false | undefined>;
  expectTypeOf<Refusing<Part<"breaker">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Part<"concurrency">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Part<"rate">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Part<"hedge">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Part<"retryAfterGate">>>().toEqualTypeOf<never>();
  expectTypeOf<Refusing<Extract<Part<"retryBudget">, { kind: "TOKENS" }>>>().toEqualTypeOf<never>();
});

test("fields that are undefined count as absent, in every part of a document", async () => {
  const maxAttempts: number | undefined = undefined;
  const shop = destination("shop", {
    policy: { maxAttempts, backoff: undefined },
    breaker: { minCalls: undefined, slowCallMs: undefined },
    concurrency: { max: undefined, maxRetries: undefined },
    retryBudget: { kind: undefined, ratio: undefined },
    rate: { perSecond: 100, burst: undefined },
    fallback: undefined,
    clock: undefined,
  });
  expect(shop.policy.maxAttempts).toBe(5);
  expect(await shop.run(() => 1, { maxAttempts, signal: undefined })).toBe(1);
});

describe("functions of a destination", () => {
  test("a fallback returns whatever its program wants", async () => {
    const shop = destination("shop", {
      policy: { maxAttempts: 1 },
      fallback: () => [] as string[],
    });
    const down = () => Promise.reject(Object.assign(new Error("down"), { status: 503 }));
    expect(await shop.run<string[]>(down)).toEqual([]);
    destination("prices", { fallback: lastGood({ maxAgeMs: 1000 }), onExhausted: async () => 7 });
  });

  test("an inline classify gets unknown, and one for a certain type is accepted", async () => {
    const ofResponse: Classify<Response> = (result) =>
      "value" in result && result.value.status === 202 ? "transient" : undefined;
    destination("jobs", { classify: ofResponse });
    const shop = destination("shop", {
      classify(result, attempt) {
        expectTypeOf(attempt).toEqualTypeOf<number>();
        if (!("value" in result)) return undefined;
        expectTypeOf(result.value).toEqualTypeOf<unknown>();
        return result.value === "busy" && attempt === 1 ? "transient" : undefined;
      },
    });
    const answers = ["busy", "ready"];
    expect(await shop.run(() => answers.shift(), { initialDelayMs: 0 })).toBe("ready");
    createFetch(shop);
  });
});

describe("wrap keeps the type of a function", () => {
  const shop = destination("shop");

  test("with type parameters", async () => {
    const load = async <Key extends string>(key: Key): Promise<{ readonly key: Key }> => ({ key });
    const wrapped = shop.wrap(load);
    const found = await wrapped("a");
    expectTypeOf(found).toEqualTypeOf<{ readonly key: "a" }>();
    expect(found).toEqual({ key: "a" });
    const other = await wrapped.with({ idempotencyKey: "k" })("b");
    expectTypeOf(other).toEqualTypeOf<{ readonly key: "b" }>();
  });

  test("with overloads", async () => {
    function parse(text: string): Promise<string>;
    function parse(number: number): Promise<number>;
    async function parse(value: string | number): Promise<string | number> {
      return value;
    }
    const wrapped = shop.wrap(parse);
    expectTypeOf(await wrapped("a")).toEqualTypeOf<string>();
    expectTypeOf(await wrapped(1)).toEqualTypeOf<number>();
  });

  test("and returns a promise for one that returns a value", async () => {
    const double = (value: number) => 2 * value;
    const wrapped = shop.wrap(double);
    expectTypeOf(wrapped(2)).toEqualTypeOf<Promise<number>>();
    expect(await wrapped(2)).toBe(4);
  });
});
