/** Assert clock: refuses to start on a store whose instants are far ahead of the wall clock. */
import { formatDuration } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import { MAX_CLOCK_AHEAD_MS } from "./engine-time.ts";

/**
 * Throws `CLOCK_BEHIND`. Engine time never goes backwards, so the service would send tasks early by
 * this difference from then on.
 */
export function assertClock(
  now: number,
  latestAt: number,
  maxAheadMs: number = MAX_CLOCK_AHEAD_MS,
): void {
  const aheadMs = latestAt - now;
  if (aheadMs <= maxAheadMs) return;
  const found = `the latest instant in the store is ${formatDuration(aheadMs)} ahead of this machine's clock`;
  const fix =
    "set the clock if it is wrong; if it is right, stop the service and run `redrive doctor --repair-clock --store sqlite:PATH`";
  throw serviceError("CLOCK_BEHIND", `${found}: ${fix}`);
}
