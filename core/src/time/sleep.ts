/**
 * Sleep: waits on a clock's alarm and ends early when its signal is aborted. The system clock and the
 * virtual clock share it, so both remove their listeners in the same way.
 */
import type { AbortSignalLike } from "./abort.ts";
import type { Cancel } from "./clock.ts";

/** Resolves after `ms`; rejects at once with the signal's reason if the signal is or becomes aborted. */
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
