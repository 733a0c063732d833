/**
 * `redrive/chaos`: fault injection. Wraps an operation so that it is sometimes slow or fails, to test a
 * policy before a real failure occurs.
 */
import { assertRange, type Clock, type Random, systemClock, systemRandom } from "@redrive/core";
import type { AttemptContext, Operation } from "./call/options.ts";

export interface ChaosOptions {
  /** Share of calls that fail without reaching the operation. 0 to 1. Default: 0. */
  readonly failureRate?: number | undefined;
  /**
   * Share of calls that reach the operation, succeed, and lose their response: the effect is there, and the
   * caller learns nothing. Shows what repeats a payment. 0 to 1. Default: 0.
   */
  readonly loseRate?: number | undefined;
  /** Creates the error of those calls. Default: an error with the code `ECONNRESET`. */
  readonly fault?: (() => unknown) | undefined;
  /** Share of calls that are delayed by `latencyMs`. 0 to 1. Default: 1. */
  readonly latencyRate?: number | undefined;
  /** Delay, fixed or uniform between two values. 0 to 600,000 ms. Default: 0. */
  readonly latencyMs?: number | readonly [number, number] | undefined;
  /** Called before every call. If it returns false, the call is not changed. */
  readonly isOn?: (() => boolean) | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: Random | undefined;
}

/** Returns the operation with injected faults. A delay ends when the attempt is aborted. */
export function chaos<T>(fn: Operation<T>, options: ChaosOptions): Operation<T> {
  const { failureRate = 0, loseRate = 0, latencyRate = 1, isOn = () => true } = options;
  const { clock = systemClock, fault = connectionReset } = options;
  assertRange("failureRate", failureRate, 0, 1);
  assertRange("loseRate", loseRate, 0, 1);
  assertRange("latencyRate", latencyRate, 0, 1);
  const [minMs, maxMs] = latencyRange(options.latencyMs ?? 0);
  const random = (options.random ?? systemRandom).fork("chaos");

  return async (context: AttemptContext): Promise<T> => {
    if (!isOn()) return fn(context);
    const isSlow = maxMs > 0 && random.next() < latencyRate;
    if (isSlow) await clock.sleep(minMs + random.next() * (maxMs - minMs), context.signal);
    if (random.next() < failureRate) throw fault();
    if (loseRate === 0 || random.next() >= loseRate) return fn(context);
    await fn(context);
    throw fault();
  };
}

function latencyRange(latencyMs: number | readonly [number, number]): readonly [number, number] {
  const [minMs, maxMs] = typeof latencyMs === "number" ? [latencyMs, latencyMs] : latencyMs;
  assertRange("latencyMs", minMs, 0, 600_000);
  assertRange("latencyMs", maxMs, minMs, 600_000);
  return [minMs, maxMs];
}

function connectionReset(): Error {
  return Object.assign(new Error("chaos: connection reset on purpose"), { code: "ECONNRESET" });
}
