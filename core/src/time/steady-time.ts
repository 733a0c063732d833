/**
 * Steady time: the instants that guards use. Callers may pass an instant that is late or repeated, or
 * one from a clock that was set back. No guard may crash, run backwards or stop for an hour because of
 * that.
 */

/** A step back of at most this is a late reading. A longer one means that the clock was set back. */
export const STALE_READING_MS = 1000;

/**
 * The instant for a guard that last saw `lastAt`. After a late reading it stays at `lastAt`. If the
 * clock was set back, the guard follows it: it shifts its own instants by the step, as if no time had
 * passed.
 */
export function steadyAt(lastAt: number, now: number): number {
  return now < lastAt && lastAt - now <= STALE_READING_MS ? lastAt : now;
}
