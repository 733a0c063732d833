/** Tests of the turn: a time that is read once, and never runs ahead of the clock. */
import { expect, test } from "vitest";
import { CachedClock } from "./cached-clock.ts";
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
  return { clock, seen, turn: new CachedClock(counting, (nowMs) => void seen.ends.push(nowMs)) };
}

test("the clock is read once for many questions in one turn", () => {
  const { seen, turn } = counted();
  for (let n = 0; n < 60; n++) turn.monotonicMs();
  expect(seen.readings).toBe(1);
});

test("a turn that goes on for long still sees time pass", () => {
  const { seen, turn } = counted();
  for (let n = 0; n < 1000; n++) turn.monotonicMs();
  expect(seen.readings).toBeGreaterThan(10);
});

test("the next turn reads anew, and the end of each is told once", async () => {
  const { clock, seen, turn } = counted();
  const first = turn.monotonicMs();
  await clock.advance(50);
  expect(turn.monotonicMs()).toBe(first + 50);
  expect(turn.now()).toBe(clock.now());
  await clock.advance(0);
  expect(seen.ends).toEqual([first, first + 50]);
});
