/**
 * `redrive/chaos`: trouble on purpose. Wraps a function so that it is slow or fails now and then,
 * to see what a policy makes of it before production does.
 */
import { assertRange, type Clock, type Random, systemClock, systemRandom } from "@redrive/core";
import type { AttemptContext, Attempted } from "./options.ts";

export interface ChaosOptions {
  /** Share of calls that fail without reaching the function. 0 to 1. Default: 0. */
  readonly failureRate?: number;
  /** What those calls throw. Default: an error that says so, marked `ECONNRESET`. */
  readonly fault?: () => unknown;
  /** Share of calls that are delayed. 0 to 1. Default: 1 if `latencyMs` is given. */
  readonly latencyRate?: number;
  /** Added before a delayed call, uniform from the first to the second. 0 to 600 000 ms. */
  readonly latencyMs?: number | readonly [number, number];
  /** Asked before every call; false lets it pass untouched. */
  readonly isOn?: () => boolean;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** The same function, with trouble in front of it. Waits end when the attempt is aborted. */
export function chaos<T>(fn: Attempted<T>, options: ChaosOptions): Attempted<T> {
  const { failureRate = 0, latencyRate = 1, clock = systemClock, isOn = () => true } = options;
  assertRange("failureRate", failureRate, 0, 1);
  assertRange("latencyRate", latencyRate, 0, 1);
  const [shortMs, longMs] = latencySpan(options.latencyMs ?? 0);
  const random = (options.random ?? systemRandom).fork("chaos");

  return async (context: AttemptContext): Promise<T> => {
    if (!isOn()) return fn(context);
    const isSlow = longMs > 0 && random.next() < latencyRate;
    if (isSlow) await clock.sleep(shortMs + random.next() * (longMs - shortMs), context.signal);
    if (random.next() < failureRate) throw options.fault ? options.fault() : connectionReset();
    return fn(context);
  };
}

function latencySpan(latencyMs: number | readonly [number, number]): readonly [number, number] {
  const [shortMs, longMs] = typeof latencyMs === "number" ? [latencyMs, latencyMs] : latencyMs;
  assertRange("latencyMs", shortMs, 0, 600_000);
  assertRange("latencyMs", longMs, shortMs, 600_000);
  return [shortMs, longMs];
}

function connectionReset(): Error {
  return Object.assign(new Error("chaos: connection reset on purpose"), { code: "ECONNRESET" });
}
