/** Tests of the drain rate: it follows the pace of a busy server and ignores idle time. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { createDrainRate, drainIntervalMs, recordFinished, recordIdleEnd } from "./drain-rate.ts";

test("is the guess until two requests have finished in a row", () => {
  const rate = createDrainRate(50, 0);
  expect(drainIntervalMs(rate, 0)).toBe(50);
  recordFinished(rate, 1000, true);
  expect(rate.intervalMs).toBe(50);
  recordFinished(rate, 1010, true);
  expect(rate.intervalMs).toBe(10);
});

test("finds the interval of a steady server, in bursts or not", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 200 }),
      fc.integer({ min: 1, max: 20 }),
      (intervalMs, burst) => {
        const rate = createDrainRate(1, 0);
        for (let n = 1; n <= 2000; n++) {
          recordFinished(rate, Math.ceil(n / burst) * burst * intervalMs, true);
        }
        expect(rate.intervalMs).toBeGreaterThan(intervalMs * 0.6);
        expect(rate.intervalMs).toBeLessThan(intervalMs * 1.4);
      },
    ),
  );
});

test("does not count the time in which nothing waited", () => {
  const rate = createDrainRate(1, 0);
  for (let n = 1; n <= 100; n++) recordFinished(rate, n * 10, true);
  recordFinished(rate, 1010, false);
  recordFinished(rate, 3_600_000, true);
  expect(rate.intervalMs).toBeCloseTo(10);
});

test("a server with one slot that is idle for an hour is as fast as before", () => {
  const rate = createDrainRate(1, 0);
  for (let n = 0; n < 100; n++) {
    recordIdleEnd(rate, n * 3_600_000);
    recordFinished(rate, n * 3_600_000 + 10, true);
  }
  expect(rate.intervalMs).toBeCloseTo(10);
  recordIdleEnd(rate, 900_000_000);
  expect(drainIntervalMs(rate, 900_000_005)).toBeCloseTo(10);
  expect(drainIntervalMs(rate, 900_000_500)).toBe(500);
});

test("grows while nothing finishes, and only if something waits", () => {
  const rate = createDrainRate(1, 0);
  for (let n = 1; n <= 100; n++) recordFinished(rate, n * 10, true);
  expect(drainIntervalMs(rate, 1005)).toBeCloseTo(10);
  expect(drainIntervalMs(rate, 6000)).toBe(5000);
  recordFinished(rate, 1010, false);
  expect(drainIntervalMs(rate, 6000)).toBeCloseTo(10);
});

test("a clock that is set back changes nothing for the worse", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -100_000, max: 1000 })), (steps) => {
      const rate = createDrainRate(10, 1_000_000);
      let now = 1_000_000;
      for (const step of steps) {
        now += step;
        recordFinished(rate, now, true);
        expect(rate.intervalMs).toBeGreaterThanOrEqual(0);
        expect(rate.intervalMs).toBeLessThanOrEqual(1000);
      }
    }),
  );
});
