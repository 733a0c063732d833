/** Tests of the visibility timeout: whole seconds, never too short, never beyond 12 hours. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { MAX_VISIBILITY_SECONDS, visibilitySeconds } from "./visibility.ts";

test("hides a message for the wait, rounded up to whole seconds", () => {
  expect(visibilitySeconds(1, 0)).toBe(1);
  expect(visibilitySeconds(0, 0)).toBe(1);
  expect(visibilitySeconds(1001, 0)).toBe(2);
  expect(visibilitySeconds(60_000, 0)).toBe(60);
});

test("hides it for 12 hours at most, counted from the receive", () => {
  const day = 86_400_000;
  expect(visibilitySeconds(day, 0)).toBe(43_200);
  expect(visibilitySeconds(day, 3_600_000)).toBe(39_600);
  expect(visibilitySeconds(day, 43_200_000)).toBe(1);
});

test("the wait and the time before it fit into the limit", () => {
  fc.assert(
    fc.property(fc.nat(10 ** 8), fc.integer({ min: 0, max: 43_000_000 }), (delayMs, elapsedMs) => {
      const seconds = visibilitySeconds(delayMs, elapsedMs);
      expect(seconds * 1000 + elapsedMs).toBeLessThanOrEqual(MAX_VISIBILITY_SECONDS * 1000);
      const isCut = delayMs + elapsedMs > MAX_VISIBILITY_SECONDS * 1000 - 2000;
      if (!isCut) expect(seconds * 1000).toBeGreaterThanOrEqual(delayMs);
    }),
  );
});
