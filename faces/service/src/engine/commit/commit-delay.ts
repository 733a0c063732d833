/**
 * Commit delay: a busy node waits a few turns of the event loop for more items, because an fsync costs
 * the same for one row and for a hundred. While attempts keep ending, more are about to end. An idle
 * node does not wait, and neither does a node whose attempts all hang.
 */

/** With this many running attempts a node is busy. It delays a commit by at most this many turns. */
const BUSY_RUNNING = 16;
const MAX_DELAYED_TURNS = 4;

export class CommitDelay {
  #delayedTurns = 0;
  #settlesBefore = 0;

  /** Called once per turn, with the number of waiting settles and of running attempts. */
  mayDelay(settles: number, running: number): boolean {
    const isBusy = running >= BUSY_RUNNING && settles > this.#settlesBefore && settles < running;
    const delays = isBusy && this.#delayedTurns < MAX_DELAYED_TURNS;
    this.#delayedTurns = delays ? this.#delayedTurns + 1 : 0;
    this.#settlesBefore = delays ? settles : 0;
    return delays;
  }
}
