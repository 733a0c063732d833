/** Suggestions for unknown fields: options of other libraries, with their values, and misspelled names. */
import { expect, test } from "vitest";
import { checkPolicy, POLICY_FIELDS } from "../decide/policy.ts";
import { checkDestination } from "../guards/destination.ts";
import { suggestName as inBrowser, nearestName } from "./nearest-name.ts";
import { FOREIGN_OPTIONS, suggestName } from "./suggest-name.ts";

const messageOf = ([problem]: readonly { readonly message: string }[]) => problem?.message;

test.each([
  [{ retries: 3 }, 'unknown field "retries", did you mean "maxAttempts: 4"?'],
  [{ retries: Number.POSITIVE_INFINITY }, 'did you mean "maxAttempts: 1000"?'],
  [{ retries: "3" }, 'did you mean "maxAttempts: the number of retries + 1"?'],
  [{ minTimeout: 200 }, 'did you mean "initialDelayMs: 200"?'],
  [{ factor: 1.5 }, 'did you mean "multiplier: 1.5"?'],
  [{ randomize: false }, 'did you mean "jitterType: NONE"?'],
  [{ limit: 2 }, 'did you mean "maxAttempts: 3"?'],
  [{ statusCodes: [429, 503] }, 'did you mean "retryableStatusCodes: [429, 503]"?'],
  [{ calculateDelay: () => 1 }, 'did you mean "delaysMs"?'],
  [{ timeout: {} }, 'did you mean "attemptTimeoutMs"?'],
  [{ retires: 3 }, 'did you mean "maxAttempts: 4"?'],
  [
    { policy: { maxAttempts: 3 } },
    'unknown field "policy", did you mean "the fields of the policy themselves, such as maxAttempts: 3"?',
  ],
  [{ maxAttemps: 3 }, 'did you mean "maxAttempts"?'],
  [{ errorThresholdPercentage: 50 }, 'unknown field "errorThresholdPercentage"'],
])("a policy with %j", (policy, message) => {
  expect(messageOf(checkPolicy(policy))).toContain(message);
});

test.each([
  [{ retries: 3 }, 'did you mean "policy: { maxAttempts: 4 }"?'],
  [{ errorThresholdPercentage: 50 }, 'did you mean "breaker: { failureRate: 0.5 }"?'],
  [{ breaker: { resetTimeout: 30_000 } }, 'did you mean "openMs: 30000"?'],
  [{ capacity: 10 }, 'did you mean "concurrency: { max: 10 }"?'],
  [{ maxConcurency: 10 }, 'did you mean "concurrency: { max: 10 }"?'],
  [{ concurrency: { maxConcurrency: 10 } }, 'did you mean "max: 10"?'],
  [{ breaker: { failureThreshold: 0.5 } }, 'did you mean "failureRate: 0.5"?'],
  [{ breaker: { failureThreshold: 5 } }, 'did you mean "failureRate"?'],
])("a destination with %j", (destination, message) => {
  expect(messageOf(checkDestination(destination))).toContain(message);
});

test("no option of another library is a field of a policy, and each leads to one", () => {
  const fields = Object.keys(POLICY_FIELDS);
  for (const [name, { field, part }] of Object.entries(FOREIGN_OPTIONS)) {
    expect(fields).not.toContain(name);
    if (part === "policy") expect(fields).toContain(field);
  }
});

test("a task with a url needs a targetUrl", () => {
  expect(suggestName("url", ["targetUrl", "method", "callbackUrl"], "http://x")).toBe("targetUrl");
});

test("in a browser, only near names are suggested", () => {
  expect(inBrowser).toBe(nearestName);
});
