/** Tests of return times: at the pace of the server, never together, never later than the maximum. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../time/virtual.ts";
import { createReturnTimes, retryAfterSeconds, takeReturnMs } from "./return-times.ts";

const NOW = 1_700_000_000_000;

/** The waits of clients that are refused at the same instant. */
function waitsOf(count: number, load: Partial<Parameters<typeof takeReturnMs>[1]> = {}): number[] {
  const times = createReturnTimes();
  const random = seededRandom(1);
  const all = { waiting: 0, intervalMs: 10, share: 1, maxWaitMs: 60_000, ...load };
  return Array.from({ length: count }, () => takeReturnMs(times, all, NOW, random.next()));
}

test("400 clients that are refused together come back one by one", () => {
  const waits = waitsOf(400);
  expect(waits[0]).toBe(1);
  expect(waits.at(-1)).toBe(3990);
  expect(new Set(waits).size).toBe(400);
});

test("no second of the timetable has more clients than the server serves in it", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 500 }),
      fc.double({ min: 0.1, max: 1, noNaN: true }),
      fc.integer({ min: 0, max: 100 }),
      (intervalMs, share, waiting) => {
        const waits = waitsOf(300, { intervalMs, share, waiting, maxWaitMs: 10_000_000 });
        const perSecond = new Map<number, number>();
        for (const waitMs of waits) {
          const second = retryAfterSeconds(waitMs);
          perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
        }
        const most = Math.max(...perSecond.values());
        expect(most).toBeLessThanOrEqual((1000 / intervalMs) * share + 2);
        expect(Math.min(...waits)).toBeGreaterThanOrEqual(Math.max(1, waiting * intervalMs));
      },
    ),
  );
});

test("the first one waits for those that the server has accepted before", () => {
  expect(waitsOf(1, { waiting: 30 })).toEqual([300]);
});

test("a full timetable is spread over the second half of the longest wait", () => {
  const waits = waitsOf(20_000, { maxWaitMs: 10_000 });
  const late = waits.slice(2000);
  expect(Math.min(...late)).toBeGreaterThanOrEqual(5000);
  expect(Math.max(...late)).toBeLessThanOrEqual(10_000);
  const inLastTenth = late.filter((waitMs) => waitMs > 9500).length;
  expect(inLastTenth / late.length).toBeCloseTo(0.1, 1);
});

test("the timetable moves on with time", () => {
  const times = createReturnTimes();
  const load = { waiting: 0, intervalMs: 100, share: 1, maxWaitMs: 60_000 };
  for (let n = 0; n < 100; n++) takeReturnMs(times, load, NOW, 0);
  expect(takeReturnMs(times, load, NOW, 0)).toBe(10_000);
  expect(takeReturnMs(times, load, NOW + 9000, 0)).toBe(1100);
  expect(takeReturnMs(times, load, NOW + 60_000, 0)).toBe(1);
});

describe("always", () => {
  test("a whole number from 1 to the maximum, also when the clock is set back", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: -200_000, max: 5000 }), fc.nat(1000), fc.nat(5000))),
        fc.integer({ min: 1, max: 100_000 }),
        (steps, maxWaitMs) => {
          const times = createReturnTimes();
          let now = NOW;
          for (const [step, waiting, intervalMs] of steps) {
            now += step;
            const load = { waiting, intervalMs, share: 0.2, maxWaitMs };
            const waitMs = takeReturnMs(times, load, now, 0.5);
            expect(Number.isInteger(waitMs)).toBe(true);
            expect(waitMs).toBeGreaterThanOrEqual(1);
            expect(waitMs).toBeLessThanOrEqual(maxWaitMs);
          }
        },
      ),
    );
  });

  test("Retry-After is never shorter than the wait", () => {
    expect([1, 999, 1000, 1001, 59_999].map(retryAfterSeconds)).toEqual([1, 1, 1, 2, 60]);
  });
});
