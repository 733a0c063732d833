/**
 * Slice size: how many rows background work takes at once, so that a slice blocks the event loop for
 * about a millisecond. A store on another machine does not block it at all.
 */

/** The intended time of a slice. The next size is proportional to it. */
export const SLICE_TARGET_MS = 1;

const MIN_ROWS = 10;
const MAX_ROWS = 200;

export class SliceSize {
  #rows = MIN_ROWS;

  /** The rows of the next slice. */
  get rows(): number {
    return this.#rows;
  }

  /** A slice of `rows` blocked the event loop for `ms`. Grows slowly and shrinks at once. */
  record(rows: number, ms: number): void {
    const fitting = ms > 0 ? Math.floor((rows * SLICE_TARGET_MS) / ms) : MAX_ROWS;
    this.#rows = Math.max(MIN_ROWS, Math.min(MAX_ROWS, fitting, 2 * this.#rows));
  }
}
