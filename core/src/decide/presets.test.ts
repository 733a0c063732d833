/** Tests of the presets: each is a legal document that does what its description says. */
import { describe, expect, test } from "vitest";
import { RedriveError } from "../documents/errors.ts";
import { compilePolicy } from "./compiled-policy.ts";
import { type Policy, resolvePolicy } from "./policy.ts";
import { type PresetName, preset, presets } from "./presets.ts";

const names = Object.keys(presets) as PresetName[];
const HOUR_MS = 3_600_000;

/** Waits of a call that always fails, with the same draw each time. */
function waits(policy: Policy, draw: number): number[] {
  const kernel = compilePolicy(policy);
  return Array.from({ length: policy.maxAttempts - 1 }, (_, index) =>
    kernel.delayMs(index + 1, 0, draw),
  );
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
const LAST_DRAW = 1 - Number.EPSILON / 2;

describe("every preset", () => {
  test.each(names)("%s is a legal document with its own name and a description", (name) => {
    expect(resolvePolicy(presets[name]).policyId).toBe(name);
    expect(presets[name].description).toMatch(/^[A-Z].{60,}\.$/s);
  });

  test.each(names)("%s has enough budget for every wait, with any draw", (name) => {
    const policy = resolvePolicy(presets[name]);
    expect(sum(waits(policy, LAST_DRAW)) + policy.minCallMs).toBeLessThanOrEqual(
      policy.totalBudgetMs,
    );
  });

  test.each(["interactive", "read", "payment", "background", "webhook"] as const)(
    "%s has enough budget for every attempt too, even if all of them time out",
    (name) => {
      const policy = resolvePolicy(presets[name]);
      const attemptsMs = policy.maxAttempts * policy.attemptTimeoutMs;
      expect(sum(waits(policy, LAST_DRAW)) + attemptsMs).toBeLessThanOrEqual(policy.totalBudgetMs);
    },
  );
});

test("default has only the default values", () => {
  const { policyId, description, ...rest } = resolvePolicy(presets.default);
  expect(rest).toEqual(resolvePolicy({}));
  expect([policyId, description]).not.toContain(undefined);
});

test("payment refuses a call without an idempotency key, and the others do not", () => {
  const strict = names.filter((name) => resolvePolicy(presets[name]).requireIdempotencyKey);
  expect(strict).toEqual(["payment"]);
});

describe("background", () => {
  const policy = resolvePolicy(presets.background);

  test("makes twelve attempts, from 1 s to 1 h, within 24 h", () => {
    const kernel = compilePolicy(policy);
    expect(policy.maxAttempts).toBe(12);
    expect([1, 2, 8, 9, 11].map((attempt) => kernel.ceilingMs(attempt))).toEqual([
      1000,
      3000,
      2_187_000,
      HOUR_MS,
      HOUR_MS,
    ]);
    expect(policy.totalBudgetMs).toBe(24 * HOUR_MS);
  });

  test("takes at least 1 h 57 min before its last attempt", () => {
    expect(sum(waits(policy, 0))).toBeGreaterThanOrEqual(117 * 60_000);
  });
});

describe("webhook", () => {
  const policy = resolvePolicy(presets.webhook);

  test("keeps the schedule of Standard Webhooks within a tenth, with any draw", () => {
    expect(policy.maxAttempts).toBe(10);
    expect(sum(policy.delaysMs ?? [])).toBe((75 * 3600 + 35 * 60 + 5) * 1000);
    expect(waits(policy, 0)[5]).toBe(9 * HOUR_MS);
    expect(waits(policy, LAST_DRAW)[5]).toBe(11 * HOUR_MS);
  });

  test("retries every response except success and 410", () => {
    expect(policy.retryableStatusCodes).toHaveLength(299);
    expect(policy.retryableStatusCodes).not.toContain(410);
    expect(policy.retryableStatusCodes).toContain(404);
  });
});

describe("preset", () => {
  test("gives the document of that name", () => {
    expect(preset("read")).toBe(presets.read);
  });

  test("suggests the likely name for a misspelled one", () => {
    const refused = () => preset("webhok");
    expect(refused).toThrow(RedriveError);
    expect(refused).toThrow('unknown preset "webhok", did you mean "webhook"?');
  });

  test.each(["zzzzzzzz", "toString", "", undefined, 7])(
    "refuses %j and lists the names",
    (name) => {
      const refused = () => preset(name as string);
      expect(refused).toThrow(/^unknown preset .+, (one of default, interactive, |did you mean )/);
    },
  );
});
