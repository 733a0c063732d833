/**
 * Retry: wraps one call without any setup. It is stateless: calls share no guards. Use `destination`
 * for calls that share one dependency.
 */
import { retryConfigOf } from "./call-config.ts";
import { CallExecution } from "./call-execution.ts";
import type { Operation, RetryOptions } from "./options.ts";
import { startCall } from "./start-call.ts";

const NO_OPTIONS: object = {};

/**
 * Calls `fn` until it succeeds or core decides to stop. Resolves with its value. Rejects with its own
 * error if nothing was retried, else with a `RedriveError` that has every attempt.
 */
export function retry<T>(
  fn: Operation<T>,
  options: RetryOptions<T> = NO_OPTIONS as RetryOptions<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    startCall(new CallExecution(retryConfigOf(options), fn, options, resolve, reject));
  });
}
