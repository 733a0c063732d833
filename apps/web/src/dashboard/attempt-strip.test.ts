/** Tests the geometry of the attempt strip. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { MIN_WIDTH, placeBar, stripOf, waitTotals } from "./attempt-strip.tsx";
import type { AttemptView, TaskView } from "./parts/client.ts";

const task = (fields: Partial<TaskView>): TaskView =>
  ({
    status: "PENDING",
    createdAt: 1000,
    attemptNumber: 1,
    nextAttemptAt: 9000,
    finishedAt: null,
    ...fields,
  }) as TaskView;
const attempt = (fields: Partial<AttemptView>): AttemptView =>
  ({
    attemptNumber: 1,
    startedAt: 2000,
    durationMs: 100,
    outcome: "status",
    responseStatus: 503,
    errorClass: null,
    waits: [],
    ...fields,
  }) as AttemptView;

test("waits come before their request, and the current wait ends at the due instant", () => {
  const waits = [{ cause: "late", sinceAt: 1000, durationMs: 1000 }] as AttemptView["waits"];
  const wait = { cause: "retry-after", sinceAt: 2100, untilAt: 9000 } as const;
  const strip = stripOf(task({ wait }), [attempt({ waits })], 3000);
  expect(strip.bars.map(({ kind, fromAt, toAt }) => [kind, fromAt, toAt])).toEqual([
    ["wait", 1000, 2000],
    ["request", 2000, 2100],
    ["wait", 2100, 9000],
  ]);
  expect(strip).toMatchObject({ startAt: 1000, endAt: 9000, dueAt: 9000 });
  expect(waitTotals(strip.bars, 3000)).toEqual([
    { cause: "late", ms: 1000 },
    { cause: "retry-after", ms: 900 },
  ]);
});

test("a task that ended without another attempt waited until its end", () => {
  const last = attempt({ nextDelayMs: 900, delaySource: "policy" });
  const ended = task({ status: "EXHAUSTED", finishedAt: 9000, nextAttemptAt: null });
  const { bars } = stripOf(ended, [last], 99_000);
  expect(bars.map((bar) => [bar.kind === "wait" ? bar.cause : "", bar.fromAt, bar.toAt])).toEqual([
    ["", 2000, 2100],
    ["policy", 2100, 3000],
    ["ended", 3000, 9000],
  ]);
  const soon = { ...ended, finishedAt: 2200 };
  expect(stripOf(soon, [attempt({ nextDelayMs: null })], 99_000).bars).toHaveLength(1);
});

test("a task that a guard holds shows the delay before the hold", () => {
  const wait = { cause: "circuit-open", sinceAt: 5000, untilAt: null } as const;
  const last = attempt({ nextDelayMs: 2900, delaySource: "policy" });
  const { bars } = stripOf(task({ wait, nextAttemptAt: 5000 }), [last], 8000);
  expect(bars.map(({ kind, fromAt, toAt }) => [kind, fromAt, toAt])).toEqual([
    ["request", 2000, 2100],
    ["wait", 2100, 5000],
    ["wait", 5000, 8000],
  ]);
});

test("a wait without a known end lasts until now", () => {
  const wait = { cause: "pause", sinceAt: 2100, untilAt: null } as const;
  const { bars } = stripOf(task({ wait, nextAttemptAt: 2500 }), [], 4000);
  expect(bars[0]).toMatchObject({ fromAt: 2100, toAt: 4000, isPlanned: true });
});

test("a task that has ended has no due instant and ends with its last request", () => {
  const ended = task({ status: "EXHAUSTED", finishedAt: 2150, nextAttemptAt: null });
  expect(stripOf(ended, [attempt({})], 99_999)).toMatchObject({ endAt: 2150, dueAt: null });
});

test("a gRPC code is shown by its name, and OK is good", () => {
  const results = [0, 14].map((responseStatus) => {
    const outcome = responseStatus === 0 ? "success" : "grpc";
    return stripOf(task({}), [attempt({ responseStatus, outcome })], 3000).bars[0];
  });
  expect(results).toMatchObject([
    { result: "OK", isGood: true },
    { result: "UNAVAILABLE", isGood: false },
  ]);
});

test("a running attempt is drawn until now, and only once", () => {
  const running = task({ status: "IN_FLIGHT", nextAttemptAt: 2000 });
  expect(stripOf(running, [], 2600).bars).toMatchObject([{ fromAt: 2000, toAt: 2600 }]);
  expect(stripOf(running, [attempt({})], 2600).bars).toHaveLength(1);
});

test("every bar is visible and stays inside the axis", () => {
  const span = fc.tuple(fc.nat(1e9), fc.nat(1e9)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)]);
  fc.assert(
    fc.property(span, fc.integer({ min: 50, max: 2000 }), ([fromAt = 0, toAt = 0], width) => {
      const placed = placeBar({ startAt: 0, endAt: 1e9 }, { fromAt, toAt }, width);
      expect(placed.width).toBeGreaterThanOrEqual(MIN_WIDTH);
      expect(placed.x).toBeGreaterThanOrEqual(0);
      expect(placed.x + placed.width).toBeLessThanOrEqual(width + 1e-6);
    }),
  );
});

test.each([
  ["held by the open circuit until its time was over", "circuit-open"],
  ["held by the rate limit until its time was over", "rate"],
  ["a header of the task cannot be decrypted", "ended"],
  [null, "ended"],
])("a dead letter without an attempt waited all its time: %s", (lastError, cause) => {
  const fields = { status: "EXHAUSTED", reason: "held", attemptNumber: 0, nextAttemptAt: null };
  const ended = { ...fields, scheduledAt: 4000, finishedAt: 34_000, lastError };
  const strip = stripOf(task(ended as Partial<TaskView>), [], 90_000);
  const span = { fromAt: 4000, toAt: 34_000, isPlanned: false };
  expect(strip.bars).toEqual([{ kind: "wait", cause, ...span }]);
  expect(strip).toMatchObject({ startAt: 1000, endAt: 34_000, dueAt: null });
});
