/**
 * Tests of durations beyond the range of the runtime's timers. Two months of simulated timers need a
 * process without the timers of other tests.
 */
import { systemClock } from "@redrive/core";
import { describe, expect, test, vi } from "vitest";

describe("durations beyond the range of the runtime's timers", () => {
  test("are re-armed and fire after exactly their duration", async () => {
    vi.useFakeTimers();
    try {
      const rung = vi.fn();
      const sixtyDaysMs = 60 * 86_400_000;
      systemClock.alarm(sixtyDaysMs, rung);
      await vi.advanceTimersByTimeAsync(sixtyDaysMs - 1);
      expect(rung).not.toHaveBeenCalled();
      await vi.advanceTimersByTimeAsync(2);
      expect(rung).toHaveBeenCalledTimes(1);
    } finally {
      vi.useRealTimers();
    }
  });

  test("one that was re-armed can still be canceled", async () => {
    vi.useFakeTimers();
    try {
      const rung = vi.fn();
      const cancel = systemClock.alarm(2 ** 32, rung);
      await vi.advanceTimersByTimeAsync(2 ** 31 + 10);
      cancel();
      await vi.advanceTimersByTimeAsync(2 ** 33);
      expect(rung).not.toHaveBeenCalled();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test("a duration that is not a number fires at once instead of never", async () => {
    vi.useFakeTimers();
    try {
      const rung = vi.fn();
      systemClock.alarm(Number.NaN, rung);
      systemClock.alarm(-5, rung);
      await vi.advanceTimersByTimeAsync(1);
      expect(rung).toHaveBeenCalledTimes(2);
    } finally {
      vi.useRealTimers();
    }
  });
});
