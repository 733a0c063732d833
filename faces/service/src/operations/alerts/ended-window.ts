/** Ended window: counts the tasks that ended in a sliding window, and the dead letters among them. */

/** The window moves in steps of a thirtieth of its length. */
const STEPS = 30;

export interface EndedCounts {
  readonly ended: number;
  readonly dead: number;
}

export class EndedWindow {
  readonly #stepMs: number;
  readonly #ended = new Array<number>(STEPS).fill(0);
  readonly #dead = new Array<number>(STEPS).fill(0);
  /** The number of the newest step. */
  #step = 0;

  constructor(windowMs: number) {
    this.#stepMs = windowMs / STEPS;
  }

  record(now: number, isDead: boolean): void {
    const at = this.#advance(now) % STEPS;
    this.#ended[at] = (this.#ended[at] ?? 0) + 1;
    if (isDead) this.#dead[at] = (this.#dead[at] ?? 0) + 1;
  }

  counts(now: number): EndedCounts {
    this.#advance(now);
    return { ended: sum(this.#ended), dead: sum(this.#dead) };
  }

  /** Clears the steps that have left the window. A time before the newest step counts there. */
  #advance(now: number): number {
    const step = Math.floor(now / this.#stepMs);
    const from = Math.max(this.#step + 1, step - STEPS + 1);
    for (let passed = from; passed <= step; passed++) {
      this.#ended[passed % STEPS] = 0;
      this.#dead[passed % STEPS] = 0;
    }
    this.#step = Math.max(this.#step, step);
    return this.#step;
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
