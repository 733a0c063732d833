/** Tests of settings: options are looked at once, and never mistaken for others. */
import { resolvePolicy, systemTime } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CallConfigCache,
  createCallConfig,
  type OptionsNode,
  retryConfigs,
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

/** What a cache answers: the policy, or why there is none. */
function tried(cache: CallConfigCache, options: object): unknown {
  try {
    return cache.get(options).policy;
  } catch (error) {
    return String(error);
  }
}

const afresh = (options: object) => tried(counting().cache, options);

/** A cache that counts how often a policy had to be made. */
function counting() {
  const made: object[] = [];
  const cache = new CallConfigCache({}, (policy) => {
    made.push(policy);
    return createCallConfig(resolvePolicy(policy));
  });
  return { cache, made };
}

describe("found again", () => {
  test("by identity, if the options are kept", () => {
    const { cache, made } = counting();
    const options = { retryableStatusCodes: [503] };
    const setting = cache.get(options);
    cache.get({ maxAttempts: 2 });
    expect(cache.get(options)).toBe(setting);
    expect(made).toHaveLength(2);
  });

  test("by value, if a literal is written anew", () => {
    const { cache, made } = counting();
    for (let n = 0; n < 10; n++) cache.get({ maxAttempts: 3, totalBudgetMs: 8000 });
    expect(made).toHaveLength(1);
  });

  test("whatever the signal, key or classifier of the one call", () => {
    const { cache, made } = counting();
    for (let n = 0; n < 10; n++) {
      const { signal } = new AbortController();
      cache.get({ maxAttempts: 3, signal, idempotencyKey: `k${n}`, classify: () => undefined });
    }
    expect(made).toHaveLength(1);
  });

  test("among several shapes that take turns", () => {
    const { cache, made } = counting();
    for (let n = 0; n < 10; n++) {
      cache.get({ maxAttempts: 3 });
      cache.get({ maxAttempts: 4 });
      cache.get({ initialDelayMs: 3 });
    }
    expect(made).toHaveLength(3);
  });

  test("among hundreds of literals", () => {
    const { cache, made } = counting();
    for (let n = 0; n < 1000; n++) cache.get({ maxAttempts: 3, totalBudgetMs: 1000 + (n % 500) });
    expect(made).toHaveLength(500);
  });

  test("by the items of a list", () => {
    const { cache, made } = counting();
    for (let n = 0; n < 10; n++) cache.get({ retryableStatusCodes: [429, 503], maxAttempts: 2 });
    expect(made).toHaveLength(1);
    cache.get({ retryableStatusCodes: [503, 429], maxAttempts: 2 });
    expect(made).toHaveLength(2);
  });
});

test("literals without end do not fill the memory, and known ones are still found after them", () => {
  const { cache, made } = counting();
  for (let n = 0; n < 3000; n++) cache.get({ totalBudgetMs: 1000 + n, maxAttempts: 1 });
  const { length } = made;
  for (let n = 0; n < 10; n++) cache.get({ maxAttempts: 3 });
  expect(made).toHaveLength(length + 1);
  expect(sizeOf(cache)).toBeLessThan(6000);
});

/** Names and values that a cache remembers. */
function sizeOf(cache: CallConfigCache): number {
  const count = ({ next }: OptionsNode): number =>
    [...next.values()].reduce((sum, node) => sum + 1 + count(node), 0);
  return count(cache["root"]);
}

describe("told apart", () => {
  test("by every value of the policy", () => {
    const { cache } = counting();
    expect(cache.get({ maxAttempts: 3 }).policy.maxAttempts).toBe(3);
    expect(cache.get({ maxAttempts: 4 }).policy.maxAttempts).toBe(4);
    expect(cache.get({ maxAttempts: 3 }).policy.maxAttempts).toBe(3);
  });

  test("by every name: a misspelt one is not taken for one without a value", () => {
    const { cache } = counting();
    cache.get({ maxAttempts: undefined });
    expect(() => cache.get({ maxAttemps: 3 })).toThrow('did you mean "maxAttempts"?');
  });

  test("by being given: inherited fields do not count", () => {
    const { cache } = counting();
    cache.get({ maxAttempts: 7, initialDelayMs: 5 });
    const heir: object = Object.assign(Object.create({ initialDelayMs: 5 }), { maxAttempts: 7 });
    expect(cache.get(heir).policy).toEqual(resolvePolicy({ maxAttempts: 7 }));
    const nothing = cache.get({});
    expect(() => cache.get(null as never)).toThrow("must be an object");
    expect(cache.get({})).toBe(nothing);
  });

  test("by their lists: an item is never taken for a name or a value", () => {
    const { cache } = counting();
    cache.get({ retryableErrors: ["timeout"], maxAttempts: 3 });
    const longer = { retryableErrors: ["timeout", "maxAttempts", 3] };
    expect(() => cache.get(longer)).toThrow("retryableErrors");
  });

  test("by what concerns the one call, if it is wrong", () => {
    const { cache } = counting();
    cache.get({ maxAttempts: 3, idempotencyKey: "k", patience: "wait" });
    const numbered = { maxAttempts: 3, idempotencyKey: 7, patience: "wait" };
    expect(() => cache.get(numbered)).toThrow("idempotencyKey must be of type string, got 7");
    const unknown = { maxAttempts: 3, idempotencyKey: "k", patience: "long" };
    expect(() => cache.get(unknown)).toThrow('patience must be one of fail-fast, wait, got "long"');
  });

  test("whatever was seen before: the cache gives what a new one would", () => {
    const lists = fc.array(anyOptions, { minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(lists, (all) => {
        const { cache } = counting();
        for (const options of all) expect(tried(cache, options)).toEqual(afresh(options));
      }),
    );
  });

  test("by clock and chance", () => {
    const { clock, random } = world();
    expect(retryConfigs.get({ maxAttempts: 2, clock }).clock).toBe(clock);
    expect(retryConfigs.get({ maxAttempts: 2 }).clock).toBe(systemTime);
    expect(retryConfigs.get({ maxAttempts: 2, random }).random).toBe(random);
  });
});

test("a value given as undefined leaves the policy beneath as it is", () => {
  const { cache, made } = counting();
  cache.get({ maxAttempts: undefined, initialDelayMs: 5 });
  expect(made).toEqual([{ initialDelayMs: 5 }]);
});
