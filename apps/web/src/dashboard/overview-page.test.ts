/** Tests the sentence, the figures and the holds of the overview. */
import { expect, test } from "vitest";
import { figuresOf, healthSentence, holdGroups, isHealthy } from "./overview-page.tsx";
import type { Activity } from "./parts/client.ts";
import { destinationWith } from "./parts/destination.testing.ts";

test("the sentence names trouble, waiting tasks and dead letters", () => {
  expect(
    healthSentence({ total: 14, troubled: 2, totals: { PENDING: 1204, EXHAUSTED: 1 }, newDead: 0 }),
  ).toBe("Trouble at 2 of 14 destinations; 1,204 waiting, 1 dead letter.");
  expect(healthSentence({ total: 1, troubled: 0, totals: {}, newDead: 0 })).toBe(
    "No trouble at 1 destination; 0 waiting, 0 dead letters.",
  );
});

test("dead letters of the last hour are no good news, although nothing is in trouble now", () => {
  const facts = { total: 14, troubled: 0, totals: { EXHAUSTED: 2442 }, newDead: 1161 };
  expect(healthSentence(facts)).toBe(
    "No trouble now at 14 destinations; 0 waiting, 2,442 dead letters, 1,161 of them in the last hour.",
  );
  const shown = [facts, { ...facts, newDead: 0 }, { ...facts, newDead: 0, troubled: 1 }];
  expect(shown.map(isHealthy)).toEqual([false, true, false]);
});

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

const NOW = 1000;

test("groups by guard, with the waiting tasks and the earliest start", () => {
  const groups = holdGroups(
    [
      destinationWith({ name: "a", tasks: { PENDING: 3 }, pausedAt: 500 }),
      destinationWith({ name: "b", tasks: { PENDING: 4 }, breakerState: "OPEN", openUntil: 2000 }),
      destinationWith({
        name: "c",
        tasks: { PENDING: 5 },
        breakerState: "OPEN",
        openUntil: 2000,
        held: [
          { lane: "first", by: "circuit-open", sinceAt: 700 },
          { lane: "retry", by: "circuit-open", sinceAt: 600 },
          { lane: "retry", by: "retry-budget", sinceAt: 900 },
        ],
      }),
    ],
    NOW,
  );
  expect(groups).toEqual([
    { by: "circuit-open", destinations: ["b", "c"], waiting: 9, sinceAt: 600 },
    { by: "retry-budget", destinations: ["c"], waiting: 5, sinceAt: 900 },
    { by: "pause", destinations: ["a"], waiting: 3, sinceAt: 500 },
  ]);
});

test("a destination without waiting tasks holds nothing, and an old gate is open", () => {
  expect(holdGroups([destinationWith({ pausedAt: 1 })], NOW)).toEqual([]);
  const open = destinationWith({ tasks: { PENDING: 1 }, gateUntil: NOW, openUntil: NOW });
  expect(holdGroups([open], NOW)).toEqual([]);
});
