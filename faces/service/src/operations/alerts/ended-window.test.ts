/** Tests of the window that counts ended tasks: it agrees with a list of all ends. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { EndedWindow } from "./ended-window.ts";

const WINDOW_MS = 30_000;
const STEP_MS = 1000;

test("counts what ended in the last window, to a thirtieth of its length", () => {
  const ends = fc.array(fc.record({ afterMs: fc.nat(20_000), isDead: fc.boolean() }), {
    minLength: 1,
    maxLength: 60,
  });
  fc.assert(
    fc.property(ends, (steps) => {
      const window = new EndedWindow(WINDOW_MS);
      const all: { at: number; isDead: boolean }[] = [];
      let now = 1_800_000_000_000;
      for (const { afterMs, isDead } of steps) {
        now += afterMs;
        window.record(now, isDead);
        all.push({ at: now, isDead });
        const { ended, dead } = window.counts(now);
        const within = (ms: number) => all.filter(({ at }) => at > now - ms);
        const [least, most] = [within(WINDOW_MS - STEP_MS), within(WINDOW_MS)];
        expect(ended).toBeGreaterThanOrEqual(least.length);
        expect(ended).toBeLessThanOrEqual(most.length);
        expect(dead).toBeGreaterThanOrEqual(least.filter((one) => one.isDead).length);
        expect(dead).toBeLessThanOrEqual(most.filter((one) => one.isDead).length);
      }
    }),
  );
});

test("is empty after a window without ends", () => {
  const window = new EndedWindow(WINDOW_MS);
  window.record(1000, true);
  expect(window.counts(1000)).toEqual({ ended: 1, dead: 1 });
  expect(window.counts(1000 + WINDOW_MS)).toEqual({ ended: 0, dead: 0 });
});
