/** Tests of what callers see of a destination. */
import { expect, test } from "vitest";
import type { DestinationHealth } from "../../operations/destination-health.ts";
import { viewDestination } from "./destination-view.ts";

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
