/**
 * Random: the source of random numbers. Each consumer forks its own stream by name, so a new consumer
 * does not change the draws of others, and a seed always gives the same results.
 */

export interface Random {
  /** The next draw, uniform in [0, 1). */
  next(): number;

  /** An independent stream. It depends on this stream's seed and the name, not on earlier draws. */
  fork(name: string): Random;
}
