/** Tests of settings: options are looked at once, and never mistaken for others. */
import { systemTime } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { retrySettings, SettingCache } from "./setting.ts";
import { world } from "./world.testing.ts";

/** A cache that counts how often a policy had to be made. */
function counting() {
  const made: object[] = [];
  const cache = new SettingCache({}, (policy) => {
    made.push(policy);
    return retrySettings.get({ ...policy });
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
});

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

  test("by clock and chance", () => {
    const { clock, random } = world();
    expect(retrySettings.get({ maxAttempts: 2, clock }).clock).toBe(clock);
    expect(retrySettings.get({ maxAttempts: 2 }).clock).toBe(systemTime);
    expect(retrySettings.get({ maxAttempts: 2, random }).random).toBe(random);
  });
});

test("a value given as undefined leaves the policy beneath as it is", () => {
  const { cache, made } = counting();
  cache.get({ maxAttempts: undefined, initialDelayMs: 5 });
  expect(made).toEqual([{ initialDelayMs: 5 }]);
});
