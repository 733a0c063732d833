/**
 * Tests of the sliding window, against a plain list of events.
 * Tests of steady time: a late reading changes nothing, and a clock set back is followed.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { refusalOf } from "../documents/saved-state.testing.ts";
import {
  advanceWindow,
  clearWindow,
  countEvent,
  countOfAge,
  createWindow,
  restoreWindow,
  STALE_READING_MS,
  saveWindow,
  steadyAt,
  tickAt,
  totalOf,
  uncountEvent,
} from "./sliding-window.ts";

const T0 = 1_700_000_000_000;
const SHAPE = { windowMs: 5000, slots: 10, kinds: 2 };

function counted(events: number, at: number) {
  const window = createWindow(SHAPE, at);
  for (let n = 0; n < events; n++) countEvent(window, 1);
  return window;
}

describe("expiry by time", () => {
  test("100 events from a minute ago do not count in a window of 5 s", () => {
    const window = counted(100, T0);
    expect(totalOf(window, 1)).toBe(100);
    advanceWindow(window, T0 + 60_000);
    expect(totalOf(window, 1)).toBe(0);
    expect(window.counts.every((count) => count === 0)).toBe(true);
  });

  test("an event leaves between 9 and 10 tenths of the window after it was counted", () => {
    const window = counted(1, T0 + 499);
    advanceWindow(window, T0 + 4999);
    expect(totalOf(window, 1)).toBe(1);
    advanceWindow(window, T0 + 5000);
    expect(totalOf(window, 1)).toBe(0);
  });

  test("a ring with one more bucket keeps an event for at least the whole window", () => {
    const window = createWindow({ ...SHAPE, slots: 11 }, T0);
    countEvent(window, 0);
    advanceWindow(window, T0 + 5000);
    expect(totalOf(window, 0)).toBe(1);
    advanceWindow(window, T0 + 5500);
    expect(totalOf(window, 0)).toBe(0);
  });

  test("totals agree with an exact list, for any window, gaps and kinds", () => {
    const step = fc.record({
      gapMs: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 20_000 })),
      kind: fc.integer({ min: 0, max: 2 }),
    });
    const anyWindowMs = fc.oneof(
      fc.constantFrom(100, 777, 10_000),
      fc.integer({ min: 1, max: 9999 }),
    );
    fc.assert(
      fc.property(anyWindowMs, fc.array(step, { maxLength: 60 }), (windowMs, steps) => {
        const shape = { windowMs, slots: 10, kinds: 3 };
        const window = createWindow(shape, T0);
        const tickOf = (at: number) => Number((BigInt(at) * 10n) / BigInt(windowMs));
        const list: { at: number; kind: number }[] = [];
        let now = T0;
        for (const { gapMs, kind } of steps) {
          now += gapMs;
          advanceWindow(window, now);
          countEvent(window, kind);
          list.push({ at: now, kind });
          for (let k = 0; k < 3; k++) {
            const held = list.filter((e) => e.kind === k && tickOf(e.at) > tickOf(now) - 10);
            expect(totalOf(window, k)).toBe(held.length);
          }
        }
      }),
    );
  });
});

describe("ages and ticks", () => {
  test("counts are found by the age of their bucket, and none beyond the ring", () => {
    const window = counted(3, T0);
    advanceWindow(window, T0 + 1000);
    countEvent(window, 1);
    expect([0, 1, 2, 3, 10, 12].map((age) => countOfAge(window, 1, age))).toEqual([
      1, 0, 3, 0, 0, 0,
    ]);
  });

  test("a tick starts at its first whole ms", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_600_000 }), fc.nat(1e12), (windowMs, at) => {
        const shape = { windowMs, slots: 10, kinds: 1 };
        const next = createWindow(shape, T0 + at).tick + 1;
        const nextAt = tickAt(shape, next);
        expect(createWindow(shape, nextAt).tick).toBeGreaterThanOrEqual(next);
        expect(createWindow(shape, nextAt - 1).tick).toBeLessThan(next);
      }),
    );
  });
});

describe("uncounting", () => {
  test("an event is removed from the bucket in which it was counted", () => {
    const window = counted(2, T0);
    const { tick } = window;
    advanceWindow(window, T0 + 1000);
    countEvent(window, 1);
    uncountEvent(window, 1, tick);
    expect([totalOf(window, 1), countOfAge(window, 1, 0), countOfAge(window, 1, 2)]).toEqual([
      2, 1, 1,
    ]);
  });

  test("an event that expired, was never counted or is in the future is not removed", () => {
    const window = counted(1, T0);
    advanceWindow(window, T0 + 4500);
    uncountEvent(window, 1, window.tick - 8);
    uncountEvent(window, 1, window.tick - 10);
    uncountEvent(window, 1, window.tick + 1);
    uncountEvent(window, 0, window.tick - 9);
    expect(totalOf(window, 1)).toBe(1);
    expect(totalOf(window, 0)).toBe(0);
  });

  test("clearing forgets everything", () => {
    const window = counted(5, T0);
    clearWindow(window);
    expect([totalOf(window, 1), countOfAge(window, 1, 0)]).toEqual([0, 0]);
  });
});

describe("a clock that goes backwards", () => {
  test("a late reading counts in the newest bucket", () => {
    const window = counted(1, T0 + 600);
    advanceWindow(window, T0 + 10);
    countEvent(window, 1);
    expect(countOfAge(window, 1, 0)).toBe(2);
    expect(window.at).toBe(T0 + 600);
  });

  test("after a clock is set back by an hour, it is as if no time had passed, and expiry continues from there", () => {
    const window = counted(4, T0);
    advanceWindow(window, T0 + 2000);
    countEvent(window, 1);
    advanceWindow(window, T0 - 3_600_000);
    expect(totalOf(window, 1)).toBe(5);
    advanceWindow(window, T0 - 3_600_000 + 3000);
    expect(totalOf(window, 1)).toBe(1);
    advanceWindow(window, T0 - 3_600_000 + 5000);
    expect(totalOf(window, 1)).toBe(0);
  });
});

describe("save and restore", () => {
  test("a restored window has and expires the same counts as the saved one", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(900), { maxLength: 40 }), fc.nat(9000), (gaps, laterMs) => {
        const window = createWindow(SHAPE, T0);
        let now = T0;
        for (const gap of gaps) {
          now += gap;
          advanceWindow(window, now);
          countEvent(window, gap % 2);
        }
        const restored = restoreWindow(
          "w",
          SHAPE,
          JSON.parse(JSON.stringify(saveWindow(window))),
          0,
        );
        expect(saveWindow(restored)).toEqual(saveWindow(window));
        for (const each of [window, restored]) advanceWindow(each, now + laterMs);
        expect(restored.totals).toEqual(window.totals);
        expect(saveWindow(restored)).toEqual(saveWindow(window));
      }),
    );
  });

  test.each([4000, 6000])("counts of a window other than %d ms are dropped", (windowMs) => {
    const shape = { ...SHAPE, windowMs };
    const restored = restoreWindow("w", shape, saveWindow(counted(9, T0)), T0 + 1);
    expect(saveWindow(restored)).toEqual(saveWindow(createWindow(shape, T0 + 1)));
  });

  test("garbage is refused by name", () => {
    const saved = saveWindow(counted(9, T0));
    const restore = (value: unknown) => () => restoreWindow("w", SHAPE, value, T0);
    expect(refusalOf(restore({ ...saved, at: -1 }))).toContain("w.at must be");
    expect(refusalOf(restore({ ...saved, counts: [1] }))).toContain(
      "a list of 20 to 20 entries, got [1]",
    );
    expect(refusalOf(restore({ ...saved, counts: saved.counts.map(() => -1) }))).toContain(
      "w.counts",
    );
    expect(refusalOf(restore({ ...saved, windowMs: "5 s" }))).toContain("w.windowMs must be");
    expect(refusalOf(restore(null))).toBe("w must be an object, got null");
  });
});

test("time that moves on is followed", () => {
  expect(steadyAt(5000, 5000)).toBe(5000);
  expect(steadyAt(5000, 5001)).toBe(5001);
  expect(steadyAt(5000, 9_999_999)).toBe(9_999_999);
});

test("a late reading of up to a second changes nothing", () => {
  expect(steadyAt(5000, 4999)).toBe(5000);
  expect(steadyAt(5000, 5000 - STALE_READING_MS)).toBe(5000);
});

test("a clock set back further than that is followed", () => {
  expect(steadyAt(5000, 4999 - STALE_READING_MS)).toBe(3999);
  expect(steadyAt(9_999_999, 0)).toBe(0);
});
