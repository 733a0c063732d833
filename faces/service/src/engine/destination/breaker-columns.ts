/** Breaker columns: the circuit of a destination in its row, which all nodes share. */
import { adoptBreaker, type Guards } from "@redrive/core";
import type { DestinationRow } from "../../model/destination-row.ts";

type Breaker = NonNullable<Guards["breaker"]>;
type BreakerColumns = Pick<DestinationRow, "breakerState" | "openUntil" | "openCount">;

/**
 * The columns to write; null when the row already has them. While a probe is running, other nodes
 * see an open circuit until `probeUntil`.
 */
export function changedColumns(
  breaker: Breaker,
  row: DestinationRow,
  probeUntil: number,
): BreakerColumns | null {
  const { state, openCount } = breaker;
  if (state === "CLOSED") {
    return row.breakerState === "CLOSED"
      ? null
      : { breakerState: "CLOSED", openUntil: 0, openCount };
  }
  // A probe whose permit was returned blocks no other node.
  const isProbing = state === "HALF_OPEN" && breaker.probes > 0;
  const openUntil = isProbing ? probeUntil : breaker.openUntil;
  const isWritten = row.breakerState === "OPEN" && row.openUntil >= openUntil;
  return isWritten ? null : { breakerState: "OPEN", openUntil, openCount };
}

/** Brings the breaker to the state of `next`, if another node has changed those columns. */
export function adoptColumns(
  breaker: Breaker,
  current: DestinationRow,
  next: DestinationRow,
  now: number,
): void {
  const { breakerState: state, openUntil, openCount } = next;
  const isChanged =
    state !== current.breakerState ||
    openUntil !== current.openUntil ||
    openCount !== current.openCount;
  if (isChanged) adoptBreaker(breaker, now, { state, openUntil, openCount });
}
