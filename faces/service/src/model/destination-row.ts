/** Destination row: the state of a destination that all nodes share, and the limits users set. */
import type { BreakerState } from "@redrive/core";

export interface DestinationRow {
  readonly tenantId: string;
  readonly name: string;
  /** Each write increments it. */
  readonly version: number;
  /** Core's destination document as JSON; null: all defaults. */
  readonly document: string | null;
  readonly pausedAt: number | null;
  /** No node calls before this instant (Retry-After); 0: no gate. */
  readonly gateUntil: number;
  readonly breakerState: BreakerState;
  readonly openUntil: number;
  readonly openCount: number;
}

/** The row of a destination that no node has written yet. */
export function blankDestination(tenantId: string, name: string): DestinationRow {
  return {
    tenantId,
    name,
    version: 0,
    document: null,
    pausedAt: null,
    gateUntil: 0,
    breakerState: "CLOSED",
    openUntil: 0,
    openCount: 0,
  };
}

/** Its circuit is open or half open. */
export function isOpen({ breakerState }: DestinationRow): boolean {
  return breakerState !== "CLOSED";
}
