/** Tests of what is known about a message of SQS, which keeps only a count, and of how long it is hidden. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { freshState } from "./message.ts";
import { KnownMessages, MAX_VISIBILITY_SECONDS, visibilitySeconds } from "./sqs.ts";

const state = { ...freshState(5), attempts: 2, lost: 0 };

test("receives of other processes are no attempts", () => {
  const known = new KnownMessages();
  expect(known.read("a", 1, 9)).toEqual({ state: freshState(9), receivesElsewhere: 0 });
  expect(known.read("a", 4, 9)).toEqual({ state: freshState(9), receivesElsewhere: 3 });
});

test("a message that comes back has its state, and a deferral is not an attempt", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 7, 9)).toEqual({ state, receivesElsewhere: 0 });
});

test("receives since then were elsewhere, and are not lost", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 9, 9)).toEqual({ state, receivesElsewhere: 2 });
});

test("a count that went back is a new message with the same id", () => {
  const known = new KnownMessages();
  known.keep("a", state, 6);
  expect(known.read("a", 1, 9)).toEqual({ state: freshState(9), receivesElsewhere: 0 });
});

test("a forgotten message is not known", () => {
  const known = new KnownMessages();
  known.keep("a", state, 1);
  known.forget("a");
  expect(known.read("a", 2, 9)).toEqual({ state: freshState(9), receivesElsewhere: 1 });
});

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
