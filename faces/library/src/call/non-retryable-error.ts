/**
 * Non-retryable error: an operation throws it to end its call at once, without a retry.
 */
import { markNonRetryable } from "./classify-attempt.ts";

/**
 * `throw new NonRetryableError(error)` ends the call, which rejects with `error`. A string becomes an
 * `Error`.
 */
export class NonRetryableError extends Error {
  override readonly name: string = "NonRetryableError";

  constructor(error: unknown) {
    const cause: unknown = error === Object(error) ? error : new Error(error as string);
    super((cause as Error).message, { cause });
    markNonRetryable(this);
  }
}
