/** Tests that the figures of the overview agree with the counts per minute. */
import { expect, test } from "vitest";
import type { Activity } from "../service/client.ts";
import { figuresOf } from "./last-hour.ts";

const zeros = () => Array<number>(60).fill(0);
const activity = (counts: Partial<Activity["counts"]>): Activity => ({
  firstMinuteAt: 0,
  minuteMs: 60_000,
  counts: {
    created: zeros(),
    attempts: zeros(),
    retries: zeros(),
    succeeded: zeros(),
    deadLetters: zeros(),
    canceled: zeros(),
    oldestAgeMs: zeros(),
    ...counts,
  },
});
const values = (given: Activity) =>
  Object.fromEntries(figuresOf(given).map(({ name, value }) => [name, value]));

test("an hour without tasks has no rates, only zeros", () => {
  expect(values(activity({}))).toEqual({
    throughput: "0",
    success: "–",
    retries: "0",
    dead: "0",
    oldest: "none",
  });
});

test("a minute without ended tasks has no success rate, and a full bar is always 100 %", () => {
  const quiet = figuresOf(activity({})).find(({ name }) => name === "success");
  expect(quiet).toMatchObject({ max: 1, series: Array(60).fill(null) });
  expect(quiet?.formatMinute(null)).toBe("no task ended");
  const given = activity({
    succeeded: [...zeros().slice(2), 1, 0],
    deadLetters: [...zeros().slice(2), 1, 2],
  });
  expect(figuresOf(given)[1]?.series.slice(-3)).toEqual([null, 0.5, 0]);
});

test("counts are added up, and rates use the tasks that ended", () => {
  const given = activity({
    succeeded: [...zeros().slice(2), 4, 95],
    deadLetters: [...zeros().slice(1), 1],
    attempts: [...zeros().slice(1), 150],
    retries: [...zeros().slice(1), 50],
    oldestAgeMs: [...zeros().slice(2), 61_400, 0],
  });
  expect(values(given)).toEqual({
    throughput: "99",
    success: "99 %",
    retries: "50",
    dead: "1",
    oldest: "61 s",
  });
  const [succeeded, success, retries] = figuresOf(given);
  expect(succeeded?.note).toBe("4 in the last minute");
  expect(success?.series.slice(-2)).toEqual([1, 95 / 96]);
  expect(retries?.note).toBe("1.5 attempts per task");
});
