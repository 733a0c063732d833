/**
 * System: the real clock and real chance. The one file that touches `Date`, timers and
 * `Math.random`; the host functions it needs are declared here, since core has no host types.
 */
import type { Cancel, Clock } from "./clock.ts";
import type { Random } from "./random.ts";
import { sleepOn } from "./sleep.ts";

type Timer = { unref?: () => void } | number;

declare const performance: { now(): number };
declare function setTimeout(fn: () => void, ms: number): Timer;
declare function clearTimeout(timer: Timer | undefined): void;
declare const globalThis: { setImmediate?: (fn: () => void) => void };
declare const crypto: { getRandomValues(bytes: Uint8Array): Uint8Array };

/** Hosts keep spans in 32 bits and fire longer ones at once: longer alarms are re-armed. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function startTimer(ms: number, background: boolean, fn: () => void): Timer {
  const timer = setTimeout(fn, ms);
  if (background && typeof timer === "object") timer.unref?.();
  return timer;
}

/**
 * Timers count in whole milliseconds and may wake a little early: what is left below one is waited
 * out turn by turn, so that no alarm rings before its time and none is late for being rounded up.
 * A span that is no number counts as 0: it must neither wait for ever nor spin.
 */
function alarm(ms: number, fn: () => void, background = false): Cancel {
  const endMs = performance.now() + (Number.isNaN(ms) ? 0 : Math.max(0, ms));
  let isCancelled = false;
  const wake = () => {
    if (isCancelled) return;
    const leftMs = endMs - performance.now();
    if (leftMs <= 0) fn();
    else if (leftMs < 1 && globalThis.setImmediate) globalThis.setImmediate(wake);
    else timer = startTimer(clampTimer(leftMs), background, wake);
  };
  let timer = startTimer(clampTimer(ms), background, wake);
  return () => {
    isCancelled = true;
    clearTimeout(timer);
  };
}

function clampTimer(ms: number): number {
  return ms > 0 ? Math.min(Math.floor(ms), LONGEST_TIMER_MS) : 0;
}

/** The machine's own time. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) => sleepOn(alarm, ms, signal),
  alarm,
  endOfTurn: (fn) => {
    if (globalThis.setImmediate) globalThis.setImmediate(fn);
    else setTimeout(fn, 0);
  },
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
