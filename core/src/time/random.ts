/**
 * Random: chance as a capability. Each consumer forks a stream of its own by name, so that adding
 * one shifts nobody else's draws and a seed replays alike.
 */

export interface Random {
  /** The next draw, uniform in [0, 1). */
  next(): number;

  /** A stream of its own, fixed by this stream's seed and the name, not by draws made so far. */
  fork(name: string): Random;
}
