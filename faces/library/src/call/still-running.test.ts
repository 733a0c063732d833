/** Tests of attempts that are still running: functions that ignore their signal. */
import { describe, expect, test } from "vitest";
import type { AttemptContext } from "./options.ts";
import { retry } from "./retry.ts";
import { rejectionOf, untilAborted, world } from "./world.testing.ts";

const TIGHT = {
  maxAttempts: 2,
  attemptTimeoutMs: 1000,
  initialDelayMs: 100,
  jitterType: "NONE",
} as const;

/** What was told of attempts still running: which, and after what. */
function running(events: readonly { type: string }[]) {
  return events.flatMap((event, index) =>
    event.type === "attempt-still-running" ? [{ ...event, after: events[index - 1]?.type }] : [],
  );
}

describe("an attempt that timed out while its function still runs", () => {
  test("is told of when the next attempt starts", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = ({ attempt }: AttemptContext) => clock.sleep(attempt === 1 ? 5000 : 0);
    await clock.run(retry(fn, { clock, random, onEvent, ...TIGHT }));
    await clock.advance(10_000);
    const told = running(events);
    expect(told).toMatchObject([{ type: "attempt-still-running", attempt: 1 }]);
    expect(events.filter(({ type }) => type === "retry")).toHaveLength(1);
  });

  test("is told of when the call ends", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = () => clock.sleep(5000);
    const call = retry(fn, { clock, random, onEvent, ...TIGHT });
    await rejectionOf(clock.run(call));
    await clock.advance(10_000);
    expect(running(events)).toMatchObject([
      { attempt: 1, after: "retry" },
      { attempt: 2, after: "give-up" },
    ]);
  });

  test("is not told of if it ended before the next one started", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = ({ attempt }: AttemptContext) => clock.sleep(attempt === 1 ? 1100 : 0);
    await clock.run(retry(fn, { clock, random, onEvent, ...TIGHT }));
    await clock.advance(10_000);
    expect(events.map(({ type }) => type)).toContain("attempt-failed");
    expect(running(events)).toEqual([]);
  });
});

test("a function that heeds its signal is never told of", async () => {
  const { clock, random, onEvent, events } = world();
  await rejectionOf(clock.run(retry(untilAborted, { clock, random, onEvent, ...TIGHT })));
  await clock.advance(10_000);
  expect(events.filter(({ type }) => type === "attempt-failed")).toHaveLength(2);
  expect(running(events)).toEqual([]);
});

test("a function that ended by itself is not told of", async () => {
  const { clock, random, onEvent, events } = world();
  const fn = async ({ signal }: { signal: AbortSignal }) => {
    await clock.sleep(10, signal);
    throw new Error("failed in time");
  };
  await rejectionOf(clock.run(retry(fn, { clock, random, onEvent, ...TIGHT })));
  await clock.advance(10_000);
  expect(events.filter(({ type }) => type === "attempt-failed")).toHaveLength(2);
  expect(running(events)).toEqual([]);
});

test("an abort by whoever is told of it ends the attempt that has just started", async () => {
  const { clock, random } = world();
  const controller = new AbortController();
  const reason = new Error("no overlap");
  const signals: AbortSignal[] = [];
  const fn = ({ signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return clock.sleep(5000);
  };
  const onEvent = ({ type }: { type: string }) => {
    if (type === "attempt-still-running") controller.abort(reason);
  };
  const call = retry(fn, { clock, random, onEvent, signal: controller.signal, ...TIGHT });
  expect(await rejectionOf(clock.run(call))).toBe(reason);
  await clock.advance(10_000);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
});
