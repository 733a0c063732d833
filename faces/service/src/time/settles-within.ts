/** Settles within: waits for a promise for at most `ms`. */
import type { Clock } from "@redrive/core";

/** True once `work` has settled, false if it has not after `ms`. The work continues either way. */
export function settlesWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.alarm(ms, () => resolve(false));
    const ended = () => {
      cancel();
      resolve(true);
    };
    work.then(ended, ended);
  });
}
