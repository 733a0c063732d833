/** Tests of what a server tells the clients that it refuses. */
import { expect, test } from "vitest";
import { ServerPace } from "./server-pace.ts";

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
