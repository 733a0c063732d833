/**
 * Fast clock: the system clock at a multiple of its speed, so that the demo service lives through an
 * hour in a few minutes. It ends at the real time, and then runs at the real speed.
 */
import { systemClock } from "../../core/dist/index.js";

/**
 * @param {number} speed
 * @param {number} lastsMs how long it is fast, in real time
 * @returns {import("../../core/dist/index.js").Clock}
 */
export function fastClock(speed, lastsMs) {
  const startMs = systemClock.monotonicMs();
  const startAt = systemClock.now() + lastsMs - lastsMs * speed;
  const passedMs = () => {
    const realMs = systemClock.monotonicMs() - startMs;
    return realMs <= lastsMs ? realMs * speed : lastsMs * speed + (realMs - lastsMs);
  };
  const isFast = () => systemClock.monotonicMs() - startMs < lastsMs;
  /** @param {number} ms */
  const real = (ms) => (isFast() ? ms / speed : ms);
  return {
    ...systemClock,
    now: () => Math.round(startAt + passedMs()),
    monotonicMs: passedMs,
    sleep: (ms, signal) => systemClock.sleep(real(ms), signal),
    alarm: (ms, fn, isBackground) => systemClock.alarm(real(ms), fn, isBackground),
    endOfTurn: (fn) => systemClock.endOfTurn(fn),
  };
}
