/** Tests of the cached clock: it is read once per turn and never runs ahead of its source. */
import { expect, test } from "vitest";
import { createCachedClock } from "./cached-clock.ts";
import { world } from "./world.testing.ts";

/** A clock that counts how often it is read. */
function counted() {
  const { clock } = world();
  const seen = { readings: 0, ends: [] as number[] };
  const counting = {
    ...clock,
    monotonicMs: () => {
      seen.readings++;
      return clock.monotonicMs();
    },
  };
  return {
    clock,
    seen,
    cached: createCachedClock(counting, (nowMs) => void seen.ends.push(nowMs)),
  };
}

test("the source is read once for many readings in one turn", () => {
  const { seen, cached } = counted();
  for (let n = 0; n < 60; n++) cached.monotonicMs();
  expect(seen.readings).toBe(1);
});

test("time advances in a long turn", () => {
  const { seen, cached } = counted();
  for (let n = 0; n < 1000; n++) cached.monotonicMs();
  expect(seen.readings).toBeGreaterThan(10);
});

test("the next turn reads the source again, and the end of each turn is reported once", async () => {
  const { clock, seen, cached } = counted();
  const first = cached.monotonicMs();
  await clock.advance(50);
  expect(cached.monotonicMs()).toBe(first + 50);
  expect(cached.now()).toBe(clock.now());
  await clock.advance(0);
  expect(seen.ends).toEqual([first, first + 50]);
});
