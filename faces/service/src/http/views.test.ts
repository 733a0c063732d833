/**
 * Tests of views: which parts of a task are shown, and which are masked. Tests of what callers see
 * of a destination.
 */
import { expect, it, test } from "vitest";
import type { DestinationHealth } from "../operations/destination-health.ts";
import { maskQuery, viewDestination } from "./views.ts";

it.each([
  ["http://h/p", "http://h/p"],
  ["http://h/p?a=1&token=s%3Dx", "http://h/p?a=***&token=***"],
  ["http://h/p?flag", "http://h/p?flag"],
])("the values of a query are masked: %s", (url, masked) => {
  expect(maskQuery(url)).toBe(masked);
});

const health = {
  name: "hooks",
  document: { rate: { perSecond: 5 }, deadLetterUrl: "https://a.example/dead?token=s3cret&x" },
  disabledTargets: [{ targetUrl: "https://a.example/?token=s3cret", disabledAt: 1 }],
} as unknown as DestinationHealth;

test("without payload:read, the queries of its URLs are masked", () => {
  expect(viewDestination(health, { mayReadPayload: false })).toEqual({
    name: "hooks",
    document: { rate: { perSecond: 5 }, deadLetterUrl: "https://a.example/dead?token=***&x" },
    disabledTargets: [{ targetUrl: "https://a.example/?token=***", disabledAt: 1 }],
  });
  const plain = { ...health, document: null, disabledTargets: [] };
  expect(viewDestination(plain, { mayReadPayload: false })).toEqual(plain);
});

test("with payload:read, nothing is masked", () => {
  expect(viewDestination(health, { mayReadPayload: true })).toBe(health);
});
