/**
 * System: the real clock and real chance. The one file that reads `Date`, timers and
 * `Math.random`; the host functions it needs are declared here, since core has no host types.
 */
import type { Cancel, Clock, TimeSource } from "./clock.ts";
import type { Random } from "./random.ts";
import { sleepOn } from "./sleep.ts";

interface Timer {
  readonly unref?: () => void;
}

declare const performance: { now(): number };
declare function setTimeout(fn: () => void, ms?: number): Timer;
declare function clearTimeout(timer: Timer | undefined): void;
declare const globalThis: { setImmediate?: (fn: () => void) => void };
declare const crypto: { getRandomValues(bytes: Uint8Array): Uint8Array };

/** Hosts keep spans in 32 bits and fire longer ones at once: longer alarms are re-armed. */
const MAX_TIMER_MS = 2 ** 31 - 1;

function startTimer(ms: number, background: boolean, fn: () => void): Timer {
  const timer = setTimeout(fn, Math.min(Math.floor(ms), MAX_TIMER_MS));
  // Browsers number their timers, and a number has no `unref`.
  if (background) timer.unref?.();
  return timer;
}

/**
 * Timers count in whole milliseconds and may wake a little early: what is left below one is waited
 * out turn by turn, so that no alarm rings before its time and none is late for being rounded up.
 * A span that is no number counts as 0: it must neither wait for ever nor spin.
 */
function alarm(ms: number, fn: () => void, background = false): Cancel {
  const spanMs = Math.max(0, ms) || 0;
  const endMs = performance.now() + spanMs;
  let isCancelled = false;
  const wake = () => {
    if (isCancelled) return;
    const leftMs = endMs - performance.now();
    if (leftMs <= 0) fn();
    else if (leftMs < 1 && globalThis.setImmediate) globalThis.setImmediate(wake);
    else timer = startTimer(leftMs, background, wake);
  };
  let timer = startTimer(spanMs, background, wake);
  return () => {
    isCancelled = true;
    clearTimeout(timer);
  };
}

const now = (): number => Date.now();
const monotonicMs = (): number => performance.now();
const endOfTurn = (fn: () => void): void => {
  (globalThis.setImmediate ?? setTimeout)(fn);
};

/** The machine's own time for code that never sleeps: a bundle of it does not contain `sleep`. */
export const systemTime: TimeSource = { now, monotonicMs, alarm, endOfTurn };

/** The machine's own time. */
export const systemClock: Clock = {
  now,
  monotonicMs,
  sleep: (ms, signal) => sleepOn(alarm, ms, signal),
  alarm,
  endOfTurn,
};

/** The machine's own chance. Its forks are as independent as its draws. */
export const systemRandom: Random = {
  next: () => Math.random(),
  fork: () => systemRandom,
};

/** Bytes that nobody can guess. */
export function systemBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

/** An id that nobody else will draw and nobody can guess: a UUID, version 4 (RFC 9562). */
export function systemId(): string {
  const bytes = systemBytes(16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
