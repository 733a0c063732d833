/** Tests that rows keep their places while events and responses change them. */
import { expect, test } from "vitest";
import type { EventView, TaskView } from "./parts/client.ts";
import { filtersOf } from "./parts/task-selection.ts";
import { applyEvent, MAX_FRESH, mergePage, rowsOf } from "./tasks-page.tsx";

const task = (taskId: string, fields: Partial<TaskView> = {}): TaskView =>
  ({
    taskId,
    status: "PENDING",
    attemptNumber: 0,
    createdAt: 1000,
    nextAttemptAt: 5,
    lastStatus: null,
    reason: null,
    finishedAt: null,
    ...fields,
  }) as TaskView;
const event = (type: string, taskId: string, fields: Partial<EventView> = {}): EventView => ({
  id: "n-1",
  at: 9000,
  type,
  taskId,
  ...fields,
});
const all = filtersOf({});
const ids = (tasks: readonly TaskView[]) => tasks.map(({ taskId }) => taskId).join();

test("an event changes its row and no other, and no row moves", () => {
  const rows = rowsOf([task("a"), task("b"), task("c")]);
  const failed = event("attempt.failed", "b", {
    attemptNumber: 1,
    nextAttemptAt: 7000,
    attempt: { responseStatus: 503 } as NonNullable<EventView["attempt"]>,
  });
  const next = applyEvent(rows, failed, all, true);
  expect(ids(next.tasks)).toBe("a,b,c");
  expect(next.tasks[1]).toMatchObject({ attemptNumber: 1, nextAttemptAt: 7000, lastStatus: 503 });
  expect(next.tasks[0]).toBe(rows.tasks[0]);
});

test("a task that ends keeps its row, with its reason and no next attempt", () => {
  const rows = rowsOf([task("a")]);
  const ended = event("task.exhausted", "a", { reason: "attempts" });
  const next = applyEvent(rows, ended, filtersOf({ status: "PENDING" }), true);
  expect(next.tasks[0]).toMatchObject({
    status: "EXHAUSTED",
    reason: "attempts",
    nextAttemptAt: null,
    finishedAt: 9000,
  });
});

test("new tasks are counted once and not inserted, and only on the first page", () => {
  let rows = rowsOf([task("a")]);
  rows = applyEvent(rows, event("task.created", "b"), all, true);
  rows = applyEvent(rows, event("task.created", "b"), all, true);
  expect([ids(rows.tasks), rows.fresh.size]).toEqual(["a", 1]);
  expect(applyEvent(rowsOf([]), event("task.created", "b"), all, false).fresh.size).toBe(0);
});

test("the count of new tasks is bounded", () => {
  let rows = rowsOf([]);
  for (let i = 0; i < MAX_FRESH + 5; i++) {
    rows = applyEvent(rows, event("task.created", `t${i}`), all, true);
  }
  expect(rows.fresh.size).toBe(MAX_FRESH);
});

test("a response replaces rows in place and counts what is new", () => {
  const rows = rowsOf([task("a"), task("b")]);
  const page = [task("z", { createdAt: 2000 }), task("a", { attemptNumber: 4 })];
  const next = mergePage(rows, page, rows);
  expect(ids(next.tasks)).toBe("a,b");
  expect(next.tasks[0]?.attemptNumber).toBe(4);
  expect([...next.fresh]).toEqual(["z"]);
});

test("an older task that moves up from the next page is not new", () => {
  const rows = rowsOf([task("a")]);
  expect(mergePage(rows, [task("old", { createdAt: 10 })], rows).fresh.size).toBe(0);
});

test("a response does not undo an event that came after its request", () => {
  const before = rowsOf([task("a")]);
  const rows = applyEvent(before, event("task.succeeded", "a"), all, true);
  expect(mergePage(rows, [task("a")], before).tasks[0]?.status).toBe("SUCCEEDED");
});
