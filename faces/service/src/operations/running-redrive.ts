/**
 * Running redrive: a redrive that this process runs.
 */
import type { StoredJob } from "./redrive-job.ts";

export class RunningRedrive {
  readonly #abort = new AbortController();
  stored: StoredJob;
  savedMs = Number.NEGATIVE_INFINITY;
  saving: Promise<void> = Promise.resolve();
  ended: Promise<void> = Promise.resolve();

  constructor(stored: StoredJob) {
    this.stored = stored;
  }

  /** Ends its sleeps. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  isActive(): boolean {
    return !this.signal.aborted;
  }

  /** Ends the run; resolves once it has stopped. */
  abandon(): Promise<void> {
    this.#abort.abort(new Error("the redrive no longer runs here"));
    return this.ended;
  }
}
