/**
 * Sleep: waiting that ends early when its signal is aborted, built on any clock's alarm. Apart,
 * because the system's clock and the virtual one must leave no listener behind in the same way.
 */
import type { AbortSignalLike } from "./abort.ts";
import type { Cancel } from "./clock.ts";

/** Resolves after `ms`; rejects with the signal's reason at once if it is, or gets, aborted. */
export function sleepOn(
  alarm: (ms: number, fn: () => void) => Cancel,
  ms: number,
  signal: AbortSignalLike | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = alarm(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
