/**
 * Attempt signal: the abort signal of an attempt. It is created when the operation reads it or when
 * the attempt is aborted, because most operations never read it.
 */
import type { Attempt } from "./call.ts";
import { markSignal } from "./retry-layer.ts";

export function createController<T>(attempt: Attempt<T>): AbortController {
  attempt.controller = new AbortController();
  if (!attempt.settled) markSignal(attempt.controller.signal, attempt.call);
  return attempt.controller;
}

export function abortSignal<T>(attempt: Attempt<T>, reason: unknown): void {
  (attempt.controller ?? createController(attempt)).abort(reason);
}
