/** Tests that trouble is described in sentences and sorted by severity. */
import { expect, test } from "vitest";
import type { DestinationView } from "./client.ts";
import { destinationWith } from "./destination.testing.ts";
import { byTrouble, totalTasks, troubleOf } from "./destination-table.tsx";

const NOW = 100_000;
const destination = destinationWith;

test("a healthy destination is not in trouble", () => {
  expect(troubleOf(destination({}), NOW)).toEqual({
    severity: 0,
    label: undefined,
    tone: undefined,
    sentences: [],
  });
  expect(troubleOf(destination({ gateUntil: NOW, openUntil: 5 }), NOW).sentences).toEqual([]);
});

test.each([
  [{ breakerState: "OPEN", openUntil: NOW + 1500 }, "the next probe is in 2 s"],
  [{ gateUntil: NOW + 100 }, "no attempt for 1 s"],
  [{ pausedAt: NOW - 60_000 }, "paused it 60 s ago"],
  [{ retryBudget: "empty" }, "retry budget is empty"],
  [
    { recent: { attempts: 8, failed: 8, failing: true } },
    "8 of 8 attempts failed in the last five",
  ],
  [{ unreadable: "unknown field" }, "unknown field"],
  [{ nextDueAt: NOW - 30_000 }, "30 s overdue"],
  [{ concurrency: { inFlight: 4, limit: 4 }, backlog: 9 }, "All 4 slots"],
] as const)("%j is explained", (fields, text) => {
  expect(troubleOf(destination(fields as Partial<DestinationView>), NOW).sentences[0]).toContain(
    text,
  );
});

test("a limit that works as intended is described, but is no trouble", () => {
  const busy = destination({ rateUntil: NOW + 50 });
  expect(troubleOf(busy, NOW)).toMatchObject({ severity: 0, tone: "busy", label: "at its rate" });
  const paused = destination({ rateUntil: NOW + 50, pausedAt: 1 });
  expect(troubleOf(paused, NOW)).toMatchObject({ tone: "warn", label: "paused" });
  expect(troubleOf(paused, NOW).sentences).toHaveLength(2);
});

test("the worst comes first, then the largest backlog, then the name", () => {
  const list = [
    destination({ name: "b" }),
    destination({ name: "a" }),
    destination({ name: "busy", backlog: 9 }),
    destination({ name: "paused", pausedAt: 1 }),
    destination({ name: "open", breakerState: "OPEN" }),
  ];
  expect(
    byTrouble(list, NOW)
      .map(({ name }) => name)
      .join(),
  ).toBe("open,paused,busy,a,b");
});

test("tasks are added up by status", () => {
  const list = [
    destination({ tasks: { PENDING: 2 } }),
    destination({ tasks: { PENDING: 1, EXHAUSTED: 4 } }),
  ];
  expect(totalTasks(list)).toEqual({ PENDING: 3, EXHAUSTED: 4 });
});
