/**
 * Attempt signal: how an attempt is told that it is over. Made when read, or when the attempt is cut
 * off, since most functions never look at it.
 */
import type { Call } from "./call.ts";
import { markSignal } from "./layer.ts";

export function makeController<T>(attempt: Call<T>): AbortController {
  attempt.controller = new AbortController();
  if (!attempt.settled) markSignal(attempt.controller.signal, attempt.call);
  return attempt.controller;
}

/** The attempt is over without having ended by itself. */
export function abort<T>(attempt: Call<T>, reason: unknown): void {
  (attempt.controller ?? makeController(attempt)).abort(reason);
}
