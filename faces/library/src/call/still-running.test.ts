/** Tests of attempts that are still running: operations that ignore their signal. */
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

/** The events about attempts that still run, and the events before them. */
function running(events: readonly { type: string }[]) {
  return events.flatMap((event, index) =>
    event.type === "attempt-still-running" ? [{ ...event, after: events[index - 1]?.type }] : [],
  );
}

describe("an attempt that timed out while its operation still runs", () => {
  test("is reported when the next attempt starts", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = ({ attempt, signal }: AttemptContext) =>
      clock.sleep(attempt === 1 && !signal.aborted ? 5000 : 0);
    await clock.run(retry(fn, { clock, random, onEvent, ...TIGHT }));
    await clock.advance(10_000);
    const found = running(events);
    expect(found).toMatchObject([{ type: "attempt-still-running", attempt: 1 }]);
    expect(events.filter(({ type }) => type === "retry")).toHaveLength(1);
  });

  test("is reported when the call ends", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = ({ signal }: AttemptContext) => clock.sleep(signal.aborted ? 0 : 5000);
    const call = retry(fn, { clock, random, onEvent, ...TIGHT });
    await rejectionOf(clock.run(call));
    await clock.advance(10_000);
    expect(running(events)).toMatchObject([
      { attempt: 1, after: "retry" },
      { attempt: 2, after: "give-up" },
    ]);
  });

  test("is reported once if the call waits for it, because it has never read its signal", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = () => new Promise<never>(() => undefined);
    const call = retry(fn, { clock, random, onEvent, ...TIGHT });
    await rejectionOf(clock.run(call));
    expect(running(events)).toMatchObject([{ attempt: 1, after: "retry" }]);
  });

  test("is not reported if its operation ended before the next attempt started", async () => {
    const { clock, random, onEvent, events } = world();
    const fn = ({ attempt }: AttemptContext) => clock.sleep(attempt === 1 ? 1100 : 0);
    await clock.run(retry(fn, { clock, random, onEvent, ...TIGHT }));
    await clock.advance(10_000);
    expect(events.map(({ type }) => type)).toContain("attempt-failed");
    expect(running(events)).toEqual([]);
  });
});

test("an operation that honors its signal is never reported", async () => {
  const { clock, random, onEvent, events } = world();
  await rejectionOf(clock.run(retry(untilAborted, { clock, random, onEvent, ...TIGHT })));
  await clock.advance(10_000);
  expect(events.filter(({ type }) => type === "attempt-failed")).toHaveLength(2);
  expect(running(events)).toEqual([]);
});

test("an operation that ended by itself is not reported", async () => {
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

test("an abort by the listener ends the attempt that has just started", async () => {
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
