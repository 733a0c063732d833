/** Within: waits for what may never end, for so long and no longer. */
import type { Clock } from "@redrive/core";

/** True once `work` has ended, well or not; false if it has not after `ms`. It goes on by itself. */
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
