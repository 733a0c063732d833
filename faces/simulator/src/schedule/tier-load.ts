/** Tier load: the exact number of calls that reach the last of several layers that all retry. */
import { power } from "../random/numeric.ts";

/**
 * Calls at the last tier per call of a client, if the last tier fails a share of them at random and
 * no layer has a budget. `attempts` lists the outermost layer first. A layer sees a failure only
 * after all attempts of the next layer have failed, so outer layers retry less, unless every call
 * fails.
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
