/** World run: the result of a world, from which the report is computed. */
import type { Tally } from "./tally.ts";

export interface WorldRun {
  /** The engine that ran the scenario. */
  readonly engine: "fleet" | "calls" | "contention" | "queue";
  readonly tally: Tally;
  /**
   * Jain's fairness index of the clients: 1 if all had equal success, 1 / count if one had all of
   * it.
   */
  readonly fairness: number;
  /** When the first phase began and the last one ended; the end is 0 without phases. */
  readonly triggerStartMs: number;
  readonly triggerEndMs: number;
  /** Queue worlds: runs that repeated finished work, and dead letters. */
  readonly duplicates?: number;
  readonly deadLetters?: number;
}
