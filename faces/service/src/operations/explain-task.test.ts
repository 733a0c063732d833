/**
 * Tests of explanations: everything that can hold a task back has its sentence. Tests of durations
 * in sentences.
 */
import { Admission, createGuards, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { blankDestination } from "../model/destination-row.ts";
import type { RetryTask } from "../model/task.ts";
import { attemptLog } from "../stores/store.testing.ts";
import { type DestinationHealth, healthOfDestination } from "./destination-health.ts";
import { explainTask, roughDuration } from "./explain-task.ts";

const NOW = 10_000;
const row = blankDestination("acme", "shop");
const admission = new Admission(createGuards({}, NOW), undefined, seededRandom(1));
const node = { held: [], recent: { attempts: 0, failed: 0, failing: false } };
const well = healthOfDestination({ row, tasks: {}, nextDueAt: null }, admission, NOW, node);
const base = {
  status: "PENDING",
  attemptNumber: 1,
  nextAttemptAt: NOW,
  claimedAt: NOW - 40,
  cancelRequestedAt: null,
  reason: null,
  redrivenTo: null,
} as unknown as RetryTask;
const running = { status: "IN_FLIGHT", nextAttemptAt: NOW - 50 } as const;

it("names the limit of the service that holds a task, unless its destination holds it", () => {
  const serviceHold = "the retry budget of the whole service is empty";
  const facts = { serviceHold };
  expect(explainTask(base, well, NOW, facts).text).toBe(`Attempt 2 is due, but ${serviceHold}.`);
  const paused = { ...well, pausedAt: NOW };
  expect(explainTask(base, paused, NOW, facts).text).toContain("is paused");
});

it.each<[Partial<RetryTask>, Partial<DestinationHealth>, string]>([
  [{ status: "SUCCEEDED" }, {}, "It succeeded at attempt 1."],
  [{ status: "CANCELLED", attemptNumber: 0 }, {}, "It was canceled after 0 attempts."],
  [
    { status: "EXHAUSTED", reason: "attempts" },
    {},
    "It ended after 1 attempt: no attempts are left.",
  ],
  [
    { status: "EXHAUSTED", reason: "attempts", redrivenTo: "t2" },
    {},
    "It ended after 1 attempt: no attempts are left; it was redriven as t2.",
  ],
  [
    {
      status: "EXHAUSTED",
      reason: "held",
      lastError: "held by the open circuit until its time was over",
      attemptNumber: 0,
    },
    {},
    "It ended after 0 attempts: held by the open circuit until its time was over.",
  ],
  [{ ...running }, {}, "Attempt 1 has been running for 40 ms."],
  [{ ...running, nextAttemptAt: NOW - 30 }, {}, "Attempt 1 has been running for 30 ms."],
  [{ ...running, nextAttemptAt: NOW + 3 }, {}, "Attempt 1 is due in 3 ms."],
  [
    { ...running, cancelRequestedAt: 1 },
    {},
    "Attempt 1 has been running for 40 ms; if it does not succeed, the task is canceled.",
  ],
  [{ nextAttemptAt: NOW + 500 }, {}, "Attempt 2 is due in 500 ms."],
  [{ nextAttemptAt: NOW + 300_000 }, {}, "Attempt 2 is due in 5 min."],
  [{}, {}, "Attempt 2 is due and starts as soon as a node claims it."],
  [{}, { pausedAt: 1 }, "Attempt 2 waits: destination shop is paused until it is resumed."],
  [
    {},
    { breakerState: "OPEN", openUntil: NOW + 7 },
    "Attempt 2 is due, but the breaker of shop has held it, next probe in 7 ms.",
  ],
  [
    {},
    { gateUntil: NOW + 9 },
    "Attempt 2 is due, but shop asked all callers to wait (Retry-After) for another 9 ms.",
  ],
  [{}, { rateUntil: NOW + 3 }, "Attempt 2 is due, but the rate of shop is used up for 3 ms."],
  [{}, { retryBudget: "empty" }, "Attempt 2 is due, but the retry budget of shop is empty."],
  [
    {},
    { concurrency: { inFlight: 2, limit: 2 } },
    "Attempt 2 is due, but all 2 slots of shop are taken.",
  ],
])("%j, %j: %s", (task, health, sentence) => {
  expect(explainTask({ ...base, ...task }, { ...well, ...health }, NOW).text).toBe(sentence);
});

it.each<[Partial<RetryTask>, Partial<DestinationHealth>, string]>([
  [{}, {}, "Its time is over: it ends without another attempt as soon as a node claims it."],
  [
    { nextAttemptAt: NOW + 500 },
    { pausedAt: 1 },
    "Its time is over: it ends without another attempt once a node can claim it, but destination shop is paused until it is resumed.",
  ],
  [
    {},
    { breakerState: "OPEN", openUntil: NOW + 7 },
    "Its time is over: it ends without another attempt once a node can claim it, but the breaker of shop has held it, next probe in 7 ms.",
  ],
  [{ nextAttemptAt: NOW + 500 }, {}, "Attempt 2 is due in 500 ms."],
])("a task whose time is over, %j, %j: %s", (task, health, sentence) => {
  const facts = { isOver: true };
  expect(explainTask({ ...base, ...task }, { ...well, ...health }, NOW, facts).text).toBe(sentence);
});

describe("the wait of a task", () => {
  const open = { ...well, breakerState: "OPEN", openUntil: NOW + 700 } as const;
  const due = { ...base, nextAttemptAt: NOW - 9000 };

  it("is the guard that holds its lane, since that guard began and until the next probe", () => {
    const laneHold = { by: "circuit-open", since: NOW - 7000 } as const;
    expect(explainTask(due, open, NOW, { laneHold })).toEqual({
      text: "Attempt 2 is due, but the breaker of shop has held it for 7 s, next probe in 700 ms.",
      wait: { cause: "circuit-open", sinceAt: NOW - 7000, untilAt: NOW + 700 },
    });
  });

  it("starts when the task was due if another node has the lane", () => {
    const { wait } = explainTask(due, open, NOW);
    expect(wait).toEqual({ cause: "circuit-open", sinceAt: NOW - 9000, untilAt: NOW + 700 });
  });

  it("names the guard of the lane if the destination looks free, for example during a probe", () => {
    const laneHold = { by: "circuit-open", since: NOW - 50 } as const;
    expect(explainTask(due, well, NOW, { laneHold })).toEqual({
      text: "Attempt 2 is due, but the open circuit has held it for 50 ms.",
      wait: { cause: "circuit-open", sinceAt: NOW - 50, untilAt: null },
    });
  });

  it.each([
    ["policy", "the delay of its policy"],
    ["retry-after", "the target asked for this wait (Retry-After)"],
    ["retry-budget", "held by the empty retry budget"],
  ])("is the delay of the last attempt before the task is due: %s", (delaySource, words) => {
    const lastAttempt = attemptLog({ startedAt: NOW - 100, durationMs: 40, delaySource });
    const task = { ...base, nextAttemptAt: NOW + 500 };
    expect(explainTask(task, well, NOW, { lastAttempt })).toEqual({
      text: `Attempt 2 is due in 500 ms: ${words}.`,
      wait: { cause: delaySource, sinceAt: NOW - 60, untilAt: NOW + 500 },
    });
  });
});

it.each([
  [40, "40 ms"],
  [999.6, "1 s"],
  [7123, "7.1 s"],
  [46_420, "46 s"],
  [59_800, "1 min"],
  [212_400, "3.5 min"],
  [10_000_000, "2.8 h"],
  [200_000_000, "2.3 d"],
])("%d ms is %s", (ms, text) => {
  expect(roughDuration(ms)).toBe(text);
});
