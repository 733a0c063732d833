/** Tests that the guards of the service are the same with the defaults of another face. */
import { resolveDestination } from "@redrive/core";
import { expect, test } from "vitest";
import { serviceGuards } from "./service-guards.ts";

test.each([
  {},
  { breaker: false as const, rate: { perSecond: 3 } },
  { policy: "webhook" as const, idempotent: true },
])("%j has the guards of the service everywhere", (document) => {
  const expected = resolveDestination(document, "service");
  expect(resolveDestination(serviceGuards(document), "simulator")).toEqual(expected);
  expect(resolveDestination(serviceGuards(document), "library")).toEqual(expected);
});

test("fields that only the service uses are left out", () => {
  const document = {
    signingSecrets: ["whsec_x"],
    disableOnGone: true,
    deadLetterUrl: "https://x.example/",
    disabledTargets: [],
  };
  expect(serviceGuards(document)).toEqual(serviceGuards({}));
});
