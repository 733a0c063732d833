/** Progress: how far a run is, told now and then, so that whoever waits for a long one can see it move. */
import type { Trace } from "./trace.ts";

/** Is told the share of the run that is over, 0 to 1. */
export type OnProgress = (share: number) => void;

/** What looks on while a world runs; neither changes a number. */
export interface Watch {
  readonly trace?: Trace | undefined;
  readonly onProgress?: OnProgress | undefined;
}

/** A power of two, so that asking costs one comparison: a tenth of a second or less apart. */
const EVENTS_BETWEEN = 131_072;

/** True for the events at which progress is told. */
export function isTold(events: number): boolean {
  return (events & (EVENTS_BETWEEN - 1)) === EVENTS_BETWEEN - 1;
}
