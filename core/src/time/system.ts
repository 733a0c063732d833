/**
 * System: the real clock and real randomness. Only this file reads `Date`, timers and `Math.random`.
 * Core has no DOM or Node types, so this file declares the functions that it needs.
 */
import {
  type AbortSignalLike,
  type Cancel,
  type Clock,
  type Random,
  sleepOn,
  type TimeSource,
} from "./clock.ts";

interface Timer {
  readonly unref?: () => void;
}

declare const performance: { now(): number };
declare function setTimeout(fn: () => void, ms?: number): Timer;
declare function clearTimeout(timer: Timer | undefined): void;
declare const globalThis: {
  setImmediate?: (fn: () => void) => void;
  /** React Native does not have it. */
  crypto?: Crypto;
};

interface Crypto {
  getRandomValues(bytes: Uint8Array): Uint8Array;
  /** Pages that did not come over TLS do not have it. */
  randomUUID?(): string;
}

declare const crypto: Crypto;

/** Runtimes store timer durations in 32 bits and fire longer ones at once. Longer alarms are re-armed. */
const MAX_TIMER_MS = 2 ** 31 - 1;

function startTimer(ms: number, background: boolean, fn: () => void): Timer {
  const timer = setTimeout(fn, Math.min(Math.floor(ms), MAX_TIMER_MS));
  // In browsers a timer is a number, which has no `unref`.
  if (background) timer.unref?.();
  return timer;
}

/**
 * Timers count whole milliseconds and may fire a little early. The last fraction of a millisecond is
 * waited out turn by turn, so no alarm fires early and none is late because of rounding. A duration
 * that is not a number counts as 0: it must neither wait forever nor spin.
 */
function alarm(ms: number, fn: () => void, background = false): Cancel {
  const durationMs = Math.max(0, ms) || 0;
  const endMs = performance.now() + durationMs;
  let isCancelled = false;
  const wake = () => {
    if (isCancelled) return;
    const leftMs = endMs - performance.now();
    if (leftMs <= 0) fn();
    else if (leftMs < 1 && globalThis.setImmediate) globalThis.setImmediate(wake);
    else timer = startTimer(leftMs, background, wake);
  };
  let timer = startTimer(durationMs, background, wake);
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

/** The machine's time for code that never sleeps: a bundle with it does not contain `sleep`. */
export const systemTime: TimeSource = { now, monotonicMs, alarm, endOfTurn };

/** The machine's time. */
export const systemClock: Clock = /* @__PURE__ */ Object.assign(
  { sleep: (ms: number, signal?: AbortSignalLike) => sleepOn(alarm, ms, signal) },
  systemTime,
);

/** The machine's random numbers. Forks are as independent as draws. */
export const systemRandom: Random = {
  next: () => Math.random(),
  fork: () => systemRandom,
};

/** Cryptographically random bytes. */
export function systemBytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count));
}

/** A unique id: a UUID, version 4 (RFC 9562). Nobody can guess it, except in a runtime without `crypto`. */
export function systemId(): string {
  const { crypto: own } = globalThis;
  if (own === undefined) return idOf(Uint8Array.from({ length: 16 }, () => Math.random() * 256));
  // Many times faster: the runtime draws the random bytes of many ids at once.
  return own.randomUUID?.() ?? idOf(systemBytes(16));
}

function idOf(bytes: Uint8Array): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
