/** Tasks read as people say them: what came of them, how long ago, how soon. */
import { describe, expect, test } from "vitest";
import { plainPaint } from "../print/paint.ts";
import { formatAgo, type Task, taskDetail, taskTable, timingText } from "./task-text.ts";

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

describe("when", () => {
  test.each([
    ["it goes on", task, "next in 4 s"],
    ["it is due", { ...task, nextAttemptAt: 900 }, "due"],
    ["it runs", { ...task, status: "IN_FLIGHT" as const }, "now"],
    ["it ended", { ...task, finishedAt: 0 }, "1 s ago"],
    ["it lives on as another", { ...task, finishedAt: 0, redrivenTo: "x" }, "redriven"],
  ])("%s", (_, one, words) => {
    expect(timingText(one, 1000)).toBe(words);
  });

  test("long ago is told coarsely", () => {
    const words = [900, 5840, 95_400, 353_000, 90_000_000].map((ms) => formatAgo(0, ms));
    expect(words).toEqual(["just now", "5.8 s ago", "95 s ago", "6 min ago", "25 h ago"]);
  });
});

test("a list has a line a task, and its target whole", () => {
  expect(taskTable([], style)).toEqual(["There are no such tasks."]);
  const [head, line] = taskTable([{ ...task, method: "PUT" }], style);
  expect(head).toMatch(/^task +status +tries +last +when +target$/u);
  expect(line).toMatch(/PENDING +2 +503 +due +PUT http:\/\/127\.0\.0\.1:7437\/orders$/u);
});

test("one task is told with its attempts and why it waits", () => {
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
  };
  const text = taskDetail({ ...task, explain: "It waits." }, [attempt], style).join("\n");
  expect(text).toMatch(/^01a1e1b6\S+ {2}PENDING {2}2 attempts\n/u);
  expect(text).toContain("why          It waits.");
  expect(text).toMatch(/12 ms +error +connect: refused +500 ms$/u);
});
