/**
 * Tests of the shared timer: no timeout ends early, or later than by a sixteenth and a turn.
 * Tests of the cached clock: it is read once per turn and never runs ahead of its source.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retry } from "./retry.ts";
import {
  createCachedClock,
  createSharedTimer,
  type SharedTimer,
  sharedTimerOf,
  type TimeoutEntry,
} from "./shared-timer.ts";
import { rejectionOf, START_AT, untilAborted, world } from "./world.testing.ts";

interface Timeout extends TimeoutEntry {
  startedAt: number;
  expiredAt: number | undefined;
}

function timeoutOn(clock: { now(): number }, timer: SharedTimer, timeoutMs: number): Timeout {
  timer.clock.monotonicMs();
  const entry: Timeout = {
    timeoutMs,
    startedAt: clock.now(),
    expiredAt: undefined,
    expiresMs: undefined,
    list: undefined,
    index: 0,
    expire() {
      entry.expiredAt = clock.now();
      timer.remove(entry);
    },
  };
  timer.add(entry);
  return entry;
}

function expectInTime({ startedAt, expiredAt, timeoutMs }: Timeout): void {
  expect(expiredAt).toBeDefined();
  const tookMs = (expiredAt ?? 0) - startedAt;
  expect(tookMs).toBeGreaterThanOrEqual(timeoutMs);
  expect(tookMs).toBeLessThanOrEqual(timeoutMs + Math.max(1, timeoutMs / 16));
}

const anyTimeout = fc.record({
  afterMs: fc.integer({ min: 0, max: 500 }),
  timeoutMs: fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 600_000 })),
});

describe("timeouts", () => {
  test("never end early, and end late by at most a sixteenth, with any mix of timeouts", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyTimeout, { minLength: 1, maxLength: 40 }), async (plan) => {
        const { clock } = world();
        const timer = createSharedTimer(clock);
        const all: Timeout[] = [];
        for (const { afterMs, timeoutMs } of plan) {
          await clock.advance(afterMs);
          all.push(timeoutOn(clock, timer, timeoutMs));
        }
        while (await clock.step());
        for (const entry of all) expectInTime(entry);
        expect(clock.pending()).toBe(0);
      }),
      { numRuns: 40 },
    );
  });

  test("of removed entries never expire", async () => {
    const { clock } = world();
    const timer = createSharedTimer(clock);
    const all = Array.from({ length: 10 }, (_, n) => timeoutOn(clock, timer, 100 + n));
    await clock.advance(50);
    for (const [n, entry] of all.entries()) if (n % 3 !== 0) timer.remove(entry);
    while (await clock.step());
    expect(all.filter(({ expiredAt }) => expiredAt !== undefined)).toHaveLength(4);
    expect(clock.pending()).toBe(0);
  });

  test("that expire together may remove each other", async () => {
    const { clock } = world();
    const controller = new AbortController();
    const reason = new Error("the other one failed");
    const handed: AbortSignal[] = [];
    const hang = ({ signal }: { signal: AbortSignal }) => {
      handed.push(signal);
      return new Promise(() => undefined);
    };
    const options = { clock, maxAttempts: 1, attemptTimeoutMs: 100 };
    const aborted = rejectionOf(retry(hang, { ...options, signal: controller.signal }));
    const timedOut = rejectionOf(retry(hang, options));
    handed[1]?.addEventListener("abort", () => controller.abort(reason));
    await clock.run(Promise.all([aborted, timedOut]));
    expect(await aborted).toBe(reason);
    expect(handed[0]?.reason).toBe(reason);
    expect(await timedOut).toMatchObject({ reason: "attempts" });
    await clock.advance(0);
    expect(clock.pending()).toBe(0);
  });
});

test("hundreds of calls with different timeouts each end at their own time", async () => {
  const { clock } = world();
  const ends = await clock.run(
    Promise.all(
      Array.from({ length: 400 }, async (_, n) => {
        const attemptTimeoutMs = 100 + ((n * 137) % 9900);
        await clock.sleep(n % 50);
        const startedAt = clock.now();
        const call = retry(untilAborted, { clock, maxAttempts: 1, attemptTimeoutMs });
        await rejectionOf(call);
        return { attemptTimeoutMs, tookMs: clock.now() - startedAt };
      }),
    ),
  );
  for (const { attemptTimeoutMs, tookMs } of ends) {
    expect(tookMs).toBeGreaterThanOrEqual(attemptTimeoutMs);
    expect(tookMs).toBeLessThanOrEqual(attemptTimeoutMs * (1 + 1 / 16));
  }
  await clock.advance(0);
  expect(clock.pending()).toBe(0);
});

test("many running attempts cost one alarm per size, not one each", async () => {
  const { clock } = world();
  const calls = Array.from({ length: 100 }, () =>
    rejectionOf(retry(untilAborted, { clock, maxAttempts: 1, attemptTimeoutMs: 1000 })),
  );
  await clock.advance(1);
  expect(clock.pending()).toBe(1);
  await clock.run(Promise.all(calls));
  expect(clock.now()).toBeGreaterThanOrEqual(START_AT + 1000);
});

test("calls on one clock share one timer", () => {
  const [one, other] = [world().clock, world().clock];
  expect(sharedTimerOf(one)).toBe(sharedTimerOf(one));
  expect(sharedTimerOf(one)).not.toBe(sharedTimerOf(other));
});

/** A clock that counts how often it is read. */
function counted() {
  const { clock } = world();
  const seen = { readings: 0, ends: [] as number[] };
  const counting = {
    ...clock,
    monotonicMs: () => {
      seen.readings++;
      return clock.monotonicMs();
    },
  };
  return {
    clock,
    seen,
    cached: createCachedClock(counting, (nowMs) => void seen.ends.push(nowMs)),
  };
}

test("the source is read once for many readings in one turn", () => {
  const { seen, cached } = counted();
  for (let n = 0; n < 60; n++) cached.monotonicMs();
  expect(seen.readings).toBe(1);
});

test("time advances in a long turn", () => {
  const { seen, cached } = counted();
  for (let n = 0; n < 1000; n++) cached.monotonicMs();
  expect(seen.readings).toBeGreaterThan(10);
});

test("the next turn reads the source again, and the end of each turn is reported once", async () => {
  const { clock, seen, cached } = counted();
  const first = cached.monotonicMs();
  await clock.advance(50);
  expect(cached.monotonicMs()).toBe(first + 50);
  expect(cached.now()).toBe(clock.now());
  await clock.advance(0);
  expect(seen.ends).toEqual([first, first + 50]);
});
