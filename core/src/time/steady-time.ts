/**
 * Steady: time as the guards see it. A guard is stepped with whatever instant its caller read,
 * and callers read late, twice, or from a clock that somebody set; no guard may crash, run
 * backwards or stand still for an hour because of that.
 */

/** A step back of at most this is a stale reading; a longer one is a clock that was set back. */
export const STALE_READING_MS = 1000;

/**
 * The instant a guard that last saw `lastAt` goes by. After a stale reading it stays at `lastAt`.
 * A clock set back is followed: the guard shifts its own instants by the step, as if no time had
 * passed.
 */
export function steadyAt(lastAt: number, now: number): number {
  return now < lastAt && lastAt - now <= STALE_READING_MS ? lastAt : now;
}
