/** Backoff hold: a hold after a failure of the node itself, twice as long after each further one. */

const FIRST_HOLD_MS = 100;
const MAX_HOLD_MS = 5000;

export class BackoffHold {
  /** Nothing starts before this instant. */
  until = 0;
  /** The number of failures since the last success. */
  #failures = 0;

  /** Failures during a hold belong to the same event. Returns whether a new hold began. */
  begin(now: number): boolean {
    if (now < this.until) return false;
    this.until = now + Math.min(MAX_HOLD_MS, FIRST_HOLD_MS * 2 ** this.#failures);
    this.#failures++;
    return true;
  }

  /** The number of holds since the last success. */
  get count(): number {
    return this.#failures;
  }

  /** An attempt that started after the hold went well. */
  recordSuccess(): void {
    this.#failures = 0;
  }
}
