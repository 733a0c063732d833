/** Progress: reports from time to time how much of a long run is done. */
import type { Trace } from "./trace.ts";

/** Receives the share of the run that is done, 0 to 1. */
export type OnProgress = (share: number) => void;

/** Observers of a run. They do not change its result. */
export interface RunObserver {
  readonly trace?: Trace | undefined;
  readonly onProgress?: OnProgress | undefined;
}

/**
 * A power of two, so the check costs one comparison. This many events take at most a tenth of a
 * second.
 */
const EVENTS_BETWEEN = 131_072;

/** True for the events at which progress is reported. */
export function isProgressDue(events: number): boolean {
  return (events & (EVENTS_BETWEEN - 1)) === EVENTS_BETWEEN - 1;
}
