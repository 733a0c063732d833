/** Tasks are shown with their result and with times relative to now. */
import { describe, expect, test } from "vitest";
import { currentWaitText, formatAgo, formatTimeOfDay } from "../terminal/event-text.ts";
import { cutsText, plainPaint } from "../terminal/terminal.ts";
import { deadLetterTable, type Task, taskDetail, taskTable, timingText } from "./task-text.ts";

const style = { width: 80, paint: plainPaint };

const task: Task = {
  taskId: "01a1e1b6-b1b2-7000-83d9-6258b3c1903d",
  tenantId: "default",
  status: "PENDING",
  reason: null,
  idempotencyKey: "order-42",
  destination: "http://127.0.0.1:7437",
  targetUrl: "http://127.0.0.1:7437/orders",
  method: "POST",
  headers: {},
  bodyRef: null,
  policyId: "demo",
  policyVersion: 1,
  idempotent: true,
  attemptNumber: 2,
  nextAttemptAt: 5000,
  createdAt: 0,
  scheduledAt: 0,
  deadlineAt: null,
  lastDelayMs: 0,
  cancelRequestedAt: null,
  lastStatus: 503,
  lastError: null,
  labels: {},
  callbackUrl: null,
  redrivenFrom: null,
  redrivenTo: null,
  finishedAt: null,
};

describe("timing of a task that", () => {
  test.each([
    ["waits for its next attempt", task, "next in 4 s"],
    ["is due", { ...task, nextAttemptAt: 900 }, "due"],
    ["is being attempted", { ...task, status: "IN_FLIGHT" as const }, "now"],
    ["ended", { ...task, finishedAt: 0 }, "1 s ago"],
    ["was redriven", { ...task, finishedAt: 0, redrivenTo: "x" }, "redriven"],
  ])("%s", (_, one, text) => {
    expect(timingText(one, 1000)).toBe(text);
  });

  test("a longer time is rounded more", () => {
    const texts = [900, 5840, 95_400, 353_000, 90_000_000].map((ms) => formatAgo(0, ms));
    expect(texts).toEqual(["just now", "5.8 s ago", "95 s ago", "6 min ago", "25 h ago"]);
  });
});

test("a list has one line per task with the complete target", () => {
  expect(taskTable([], style)).toEqual(["There are no matching tasks."]);
  const [head, line] = taskTable([{ ...task, method: "PUT" }], style);
  expect(head).toMatch(/^task +status +attempts +last +when +target$/u);
  expect(line).toMatch(/PENDING +2 +503 +due +PUT http:\/\/127\.0\.0\.1:7437\/orders$/u);
});

describe("a list that is too wide", () => {
  const lastError = "connect: connect ECONNREFUSED 127.0.0.1:9, after a while";
  const ended = { ...task, lastStatus: null, lastError, reason: "attempts" };
  const targetUrl = "http://127.0.0.1/orders";

  test.each([
    ["tasks", taskTable],
    ["dead letters", deadLetterTable],
  ])("of %s is cut on a terminal: the last result, not the target", (_, tableOf) => {
    const [, line = ""] = tableOf([{ ...ended, targetUrl }], style);
    expect(line).toMatch(/ connect: \S*… {2}due {3}http:\/\/127\.0\.0\.1\/orders$/u);
    expect(line.length).toBeLessThanOrEqual(80);
  });

  test.each([
    ["tasks", taskTable],
    ["dead letters", deadLetterTable],
  ])("of %s is complete for another program", (_, tableOf) => {
    const long = `${targetUrl}/${"x".repeat(200)}`;
    const [, line] = tableOf([{ ...ended, targetUrl: long }], { ...style, cuts: false });
    expect(line).toContain(`${lastError}  due   ${long}`);
  });

  test("is cut if the user has set a width", () => {
    expect([cutsText({}, true), cutsText({}, undefined)]).toEqual([true, false]);
    expect(cutsText({ COLUMNS: "100" }, false)).toBe(true);
  });
});

test("the details of a task include its attempts and why it waits", () => {
  const attempt = {
    attemptNumber: 1,
    startedAt: 0,
    durationMs: 12,
    phases: null,
    outcome: "error",
    responseStatus: null,
    errorClass: "connect",
    errorMessage: "refused",
    responseHeaders: null,
    nextDelayMs: 500,
    delaySource: null,
    waits: [],
  };
  const waits = [
    { cause: "policy", sinceAt: 12, durationMs: 500 } as const,
    { cause: "circuit-open", sinceAt: 512, durationMs: 7160 } as const,
  ];
  const second = { ...attempt, attemptNumber: 2, startedAt: 7672, waits };
  const text = taskDetail({ ...task, explain: "It waits." }, [attempt, second], {
    ...style,
    width: 120,
  }).join("\n");
  expect(text).toMatch(/^01a1e1b6\S+ {2}PENDING {2}2 attempts\n/u);
  expect(text).toContain("why          It waits.");
  expect(text).toMatch(/1 +[\d:]+ +12 ms +error +connect: refused\n/u);
  expect(text).toMatch(/2 +500 ms policy, 7\.16 s breaker +[\d:]+ +12 ms +error/u);
});

test("a waiting task shows which guard holds it, since when, and when that ends", () => {
  const now = 100_000;
  const text = (cause: string, untilAt: number | null) =>
    currentWaitText({ cause, sinceAt: now - 7000, untilAt } as never, "payments", now);
  const since = formatTimeOfDay(now - 7000);
  expect(text("circuit-open", now + 1900)).toBe(
    `held by the breaker of \`payments\` since ${since}, next probe in 1.9 s`,
  );
  expect(text("pause", null)).toBe(`held by the pause of \`payments\` since ${since}`);
  expect(text("policy", now + 500)).toBe("waits for the delay of its policy, next in 500 ms");
  const wait = { cause: "rate", sinceAt: now, untilAt: null } as const;
  expect(taskDetail({ ...task, wait }, [], { ...style, width: 120 }).join("\n")).toMatch(
    /\nwaits +held by the rate of `http:\/\/127\.0\.0\.1:7437` since/u,
  );
});
