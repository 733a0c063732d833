/**
 * Retry: wraps one call, with nothing to set up. Stateless: calls share no guards. For everything
 * that contends for one dependency use `destination`.
 */

import { Call } from "./call.ts";
import type { Attempted, RetryOptions } from "./options.ts";
import { retrySettings } from "./setting.ts";
import { start } from "./start-call.ts";

const NO_OPTIONS: object = {};

/**
 * Calls `fn` until it succeeds or core says stop. Resolves with its value; rejects with its own
 * error if nothing was retried, else with a `RedriveError` that has every attempt.
 */
export function retry<T>(
  fn: Attempted<T>,
  options: RetryOptions<T> = NO_OPTIONS as RetryOptions<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    start(new Call(retrySettings.get(options), fn, options, resolve, reject));
  });
}
