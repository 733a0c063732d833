/**
 * Work between commits: a read of the store that must not run beside a commit, so that the claims that it
 * finds are those that this node knows.
 */
export class WorkBetween {
  #work: (() => Promise<void>) | undefined;
  #isRunning = false;

  get isWaiting(): boolean {
    return this.#work !== undefined;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** Replaces work that has not started. */
  request(work: () => Promise<void>): void {
    if (!this.#isRunning) this.#work = work;
  }

  /** No commit runs: starts the work, if there is any, and calls `done` after it. Returns true if it did. */
  start(done: () => void): boolean {
    const work = this.#work;
    if (work === undefined) return false;
    this.#work = undefined;
    this.#isRunning = true;
    const end = () => {
      this.#isRunning = false;
      done();
    };
    work().then(end, end);
    return true;
  }
}
