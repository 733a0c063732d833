/** Tier load: how many calls reach the last of several layers that all retry, exactly. */
import { power } from "../random/numeric.ts";

/**
 * Calls at the last tier per call of a client, if the last tier fails a share of them by chance and
 * no layer has a budget. `attempts` is outermost first. Each layer sees its callee fail only when all
 * of that one's attempts have failed, so layers further out retry ever less, unless all fail.
 */
export function tierLoad(attempts: readonly number[], failureRate: number): number {
  let load = 1;
  let fails = failureRate;
  for (const count of [...attempts].reverse()) {
    load *= fails === 1 ? count : (1 - power(fails, count)) / (1 - fails);
    fails = power(fails, count);
  }
  return load;
}
