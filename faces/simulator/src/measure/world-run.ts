/** World run: what every world hands to the report when it is over. */
import type { Tally } from "./tally.ts";

export interface WorldRun {
  /** Which engine ran it. */
  readonly engine: "fleet" | "calls" | "contention" | "queue";
  readonly tally: Tally;
  /** Jain's index between clients: 1 when all fared alike, 1 / count when one got everything. */
  readonly fairness: number;
  /** When trouble began and ended; it ended at 0 if there was none. */
  readonly triggerStartMs: number;
  readonly triggerEndMs: number;
  /** Queue worlds: runs that did work which was already done, and dead letters. */
  readonly duplicates?: number;
  readonly deadLetters?: number;
}
