/**
 * Permits out: how many permits of a destination are in use, counted whether or not its document
 * limits them: a later document may, and what is under way then counts.
 */
import type { Concurrency } from "@redrive/core";

export class PermitsOut {
  #all = 0;
  #retries = 0;

  /** One more, or one less. */
  count(isRetry: boolean, step: 1 | -1): void {
    this.#all += step;
    if (isRetry) this.#retries += step;
  }

  /** A limit that begins now, or goes on under another document, knows of them all. */
  tell(concurrency: Concurrency | undefined): void {
    if (concurrency === undefined) return;
    concurrency.inFlight = this.#all;
    concurrency.retriesInFlight = this.#retries;
  }
}
