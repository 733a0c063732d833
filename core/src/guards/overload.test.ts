/**
 * Tests of what a server tells the clients that it refuses.
 * Tests of the drain rate: it follows the pace of a busy server and ignores idle time.
 * Tests of return times: at the pace of the server, never together, never later than the maximum.
 * Tests of the queue of a busy server, against a model with plain lists.
 */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { seededRandom } from "../time/virtual.ts";
import {
  AttemptQueue,
  createDrainRate,
  createReturnTimes,
  drainIntervalMs,
  type QueuedAttempt,
  recordFinished,
  recordIdleEnd,
  retryAfterSeconds,
  ServerPace,
  takeReturnMs,
} from "./overload.ts";

describe("server pace", () => {
  const NOW = 1_700_000_000_000;

  /** A server that has finished a request every 10 ms for a second. */
  function busy(): ServerPace {
    const pace = new ServerPace(1000, NOW - 1000);
    for (let n = 0; n <= 100; n++) pace.recordFinished(NOW - 1000 + n * 10, true);
    return pace;
  }

  const waits = (pace: ServerPace, count: number) =>
    Array.from({ length: count }, () => pace.returnMs(0, 60_000, NOW, 0));

  test("clients return at the pace of the server if nobody else comes", () => {
    expect(waits(busy(), 5)).toEqual([1, 10, 20, 30, 40]);
  });

  test("clients return more slowly if first attempts need the capacity", () => {
    const pace = busy();
    for (let n = 0; n < 500; n++) pace.countFirstAttempt(NOW);
    // 50 per second of the 100 that the server can do.
    expect(waits(pace, 3)).toEqual([1, 20, 40]);
  });

  test("a fifth of the capacity is for them, whatever else comes", () => {
    const pace = busy();
    for (let n = 0; n < 50_000; n++) pace.countFirstAttempt(NOW);
    expect(waits(pace, 3)).toEqual([1, 50, 100]);
  });

  test("a server that finishes nothing any more asks for longer waits", () => {
    const pace = busy();
    expect(pace.returnMs(10, 60_000, NOW, 0)).toBe(100);
    expect(pace.returnMs(10, 60_000, NOW + 2000, 0)).toBe(20_000);
  });

  test("the interval is the guess at first", () => {
    expect(new ServerPace(50, NOW).intervalMs(NOW)).toBe(50);
  });
});

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

describe("return times", () => {
  const NOW = 1_700_000_000_000;

  /** The waits of clients that are refused at the same instant. */
  function waitsOf(
    count: number,
    load: Partial<Parameters<typeof takeReturnMs>[1]> = {},
  ): number[] {
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
});

function queueOf(max: number, ...names: readonly string[]): AttemptQueue<string> {
  const queue = new AttemptQueue<string>(max);
  for (const name of names) queue.join(name, name.startsWith("retry"));
  return queue;
}

function drain(queue: AttemptQueue<string>): string[] {
  const served: string[] = [];
  for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
    queue.serve(next);
    served.push(next.value);
  }
  return served;
}

test("first attempts go before retries, each in order of arrival", () => {
  expect(drain(queueOf(9, "retry 1", "first 1", "retry 2", "first 2"))).toEqual([
    "first 1",
    "first 2",
    "retry 1",
    "retry 2",
  ]);
});

test("a first attempt takes the place of the newest retry in a full queue", () => {
  const queue = queueOf(3, "retry 1", "first 1", "retry 2");
  expect(queue.join("first 2", false)).toBeDefined();
  expect(queue.displaced).toBe("retry 2");
  expect(queue.join("retry 3", true)).toBeUndefined();
  expect(queue.displaced).toBeUndefined();
  expect(drain(queue)).toEqual(["first 1", "first 2", "retry 1"]);
});

test("a queue full of first attempts takes nothing", () => {
  const queue = queueOf(2, "first 1", "first 2");
  expect([queue.join("first 3", false), queue.join("retry 1", true)]).toEqual([
    undefined,
    undefined,
  ]);
});

test("one in ten is a retry, however many first attempts wait", () => {
  const firsts = Array.from({ length: 40 }, (_, n) => `first ${n}`);
  const served = drain(queueOf(99, "retry 1", "retry 2", "retry 3", ...firsts));
  expect(served.indexOf("retry 1")).toBe(9);
  expect(served.indexOf("retry 2")).toBe(19);
  expect(served.indexOf("retry 3")).toBe(29);
});

test("how many are ahead", () => {
  const queue = queueOf(9, "retry 1", "first 1", "retry 2");
  expect([queue.ahead(false), queue.ahead(true)]).toEqual([1, 3]);
});

test("is never longer than its limit, and loses nobody", () => {
  const step = fc.constantFrom("first", "retry", "serve", "leave" as const);
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 5 }), fc.array(step, { maxLength: 60 }), (max, steps) => {
      const queue = new AttemptQueue<number>(max);
      const waiting = new Map<number, QueuedAttempt<number>>();
      let count = 0;
      for (const one of steps) {
        if (one === "serve") {
          const next = queue.peek();
          if (next !== undefined) {
            queue.serve(next);
            expect(waiting.delete(next.value)).toBe(true);
          }
        } else if (one === "leave") {
          const [first] = waiting.values();
          if (first !== undefined) {
            queue.remove(first);
            queue.remove(first);
            waiting.delete(first.value);
          }
        } else {
          const entry = queue.join(++count, one === "retry");
          if (queue.displaced !== undefined) waiting.delete(queue.displaced);
          if (entry !== undefined) waiting.set(count, entry);
        }
        expect(queue.size).toBe(waiting.size);
        expect(queue.size).toBeLessThanOrEqual(max);
        expect(queue.peek() === undefined).toBe(queue.size === 0);
      }
    }),
  );
});
