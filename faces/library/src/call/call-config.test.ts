/** Tests of call configs: options are checked once and never mistaken for others. */
import { resolvePolicy, systemTime } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CALL_FIELDS,
  createCallConfig,
  createConfigCache,
  type FindCallConfig,
  retryConfigOf,
} from "./call-config.ts";
import { world } from "./world.testing.ts";

/** Few fields with few values, so that literals repeat and nearly repeat. Some values are wrong. */
const anyField = fc.oneof(
  fc.tuple(fc.constant("maxAttempts"), fc.constantFrom(2, 3, "3", undefined)),
  fc.tuple(fc.constant("maxAttemps"), fc.constantFrom(3, undefined)),
  fc.tuple(fc.constant("retryableErrors"), fc.subarray(["timeout", "reset", "maxAttempts", 3])),
  fc.tuple(fc.constant("idempotencyKey"), fc.constantFrom("a", "b", 7, undefined)),
  fc.tuple(fc.constant("patience"), fc.constantFrom("wait", "fail-fast", "long")),
);
const anyOptions = fc
  .array(anyField, { maxLength: 2 })
  .map((fields): object => Object.fromEntries(fields));

/** What a cache returns: the policy, or the error. */
function tried(configOf: FindCallConfig, options: object): unknown {
  try {
    return configOf(options).policy;
  } catch (error) {
    return String(error);
  }
}

const afresh = (options: object) => tried(counting().configOf, options);

/** A cache that counts how often it creates a config. */
function counting() {
  const made: object[] = [];
  const configOf = createConfigCache(CALL_FIELDS, {}, (policy) => {
    made.push(policy);
    return createCallConfig(resolvePolicy(policy));
  });
  return { configOf, made };
}

describe("options are found again", () => {
  test("by identity, if the caller keeps them", () => {
    const { configOf, made } = counting();
    const options = { retryableStatusCodes: [503] };
    const config = configOf(options);
    configOf({ maxAttempts: 2 });
    expect(configOf(options)).toBe(config);
    expect(made).toHaveLength(2);
  });

  test("by value, if each call passes a new literal", () => {
    const { configOf, made } = counting();
    for (let n = 0; n < 10; n++) configOf({ maxAttempts: 3, totalBudgetMs: 8000 });
    expect(made).toHaveLength(1);
  });

  test("with any signal, key or classifier", () => {
    const { configOf, made } = counting();
    for (let n = 0; n < 10; n++) {
      const { signal } = new AbortController();
      configOf({ maxAttempts: 3, signal, idempotencyKey: `k${n}`, classify: () => undefined });
    }
    expect(made).toHaveLength(1);
  });

  test("among several alternating shapes", () => {
    const { configOf, made } = counting();
    for (let n = 0; n < 10; n++) {
      configOf({ maxAttempts: 3 });
      configOf({ maxAttempts: 4 });
      configOf({ initialDelayMs: 3 });
    }
    expect(made).toHaveLength(3);
  });

  test("among hundreds of literals", () => {
    const { configOf, made } = counting();
    for (let n = 0; n < 1000; n++) configOf({ maxAttempts: 3, totalBudgetMs: 1000 + (n % 500) });
    expect(made).toHaveLength(500);
  });

  test("by the items of a list", () => {
    const { configOf, made } = counting();
    for (let n = 0; n < 10; n++) configOf({ retryableStatusCodes: [429, 503], maxAttempts: 2 });
    expect(made).toHaveLength(1);
    configOf({ retryableStatusCodes: [503, 429], maxAttempts: 2 });
    expect(made).toHaveLength(2);
  });
});

test("endless new literals do not fill the memory, and known ones are still found after them", () => {
  const { configOf, made } = counting();
  const literals = (count: number) => {
    for (let n = 0; n < count; n++) configOf({ totalBudgetMs: 1000 + n, maxAttempts: 1 });
  };
  literals(1000);
  literals(1000);
  expect(made).toHaveLength(1000);
  // Each literal adds three keys, and at most 5000 are kept: the first ones are created again.
  literals(3000);
  literals(1000);
  expect(made).toHaveLength(4000);
  for (let n = 0; n < 10; n++) configOf({ maxAttempts: 3 });
  expect(made).toHaveLength(4001);
});

describe("options are distinguished", () => {
  test("by every value of the policy", () => {
    const { configOf } = counting();
    expect(configOf({ maxAttempts: 3 }).policy.maxAttempts).toBe(3);
    expect(configOf({ maxAttempts: 4 }).policy.maxAttempts).toBe(4);
    expect(configOf({ maxAttempts: 3 }).policy.maxAttempts).toBe(3);
  });

  test("by every name: a misspelled name is not mistaken for an absent one", () => {
    const { configOf } = counting();
    configOf({ maxAttempts: undefined });
    expect(() => configOf({ maxAttemps: 3 })).toThrow('did you mean "maxAttempts"?');
  });

  test("by own fields: inherited fields do not count", () => {
    const { configOf } = counting();
    configOf({ maxAttempts: 7, initialDelayMs: 5 });
    const heir: object = Object.assign(Object.create({ initialDelayMs: 5 }), { maxAttempts: 7 });
    expect(configOf(heir).policy).toEqual(resolvePolicy({ maxAttempts: 7 }));
    const nothing = configOf({});
    expect(() => configOf(null as never)).toThrow("must be an object");
    expect(configOf({})).toBe(nothing);
  });

  test("by their lists: an item is never mistaken for a name or a value", () => {
    const { configOf } = counting();
    configOf({ retryableErrors: ["timeout"], maxAttempts: 3 });
    const longer = { retryableErrors: ["timeout", "maxAttempts", 3] };
    expect(() => configOf(longer)).toThrow("retryableErrors");
  });

  test("by call fields, if they are invalid", () => {
    const { configOf } = counting();
    configOf({ maxAttempts: 3, idempotencyKey: "k", patience: "wait" });
    const numbered = { maxAttempts: 3, idempotencyKey: 7, patience: "wait" };
    expect(() => configOf(numbered)).toThrow("idempotencyKey must be of type string, got 7");
    const unknown = { maxAttempts: 3, idempotencyKey: "k", patience: "long" };
    expect(() => configOf(unknown)).toThrow('patience must be one of fail-fast, wait, got "long"');
  });

  test("regardless of earlier options: the cache returns what a new cache would", () => {
    const lists = fc.array(anyOptions, { minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(lists, (all) => {
        const { configOf } = counting();
        for (const options of all) expect(tried(configOf, options)).toEqual(afresh(options));
      }),
    );
  });

  test("by clock and random source", () => {
    const { clock, random } = world();
    expect(retryConfigOf({ maxAttempts: 2, clock }).clock).toBe(clock);
    expect(retryConfigOf({ maxAttempts: 2 }).clock).toBe(systemTime);
    expect(retryConfigOf({ maxAttempts: 2, random }).random).toBe(random);
  });
});

test("a value of undefined does not override the policy", () => {
  const { configOf, made } = counting();
  configOf({ maxAttempts: undefined, initialDelayMs: 5 });
  expect(made).toEqual([{ initialDelayMs: 5 }]);
});
