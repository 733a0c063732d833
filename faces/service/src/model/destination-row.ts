/** Destination row: the state of a destination that all nodes share, and the limits users set. */
import { type BreakerState, DocumentError, fieldProblem, type Rule, textRule } from "@redrive/core";

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

/** `version`: see `DestinationWrite`; 0 in a row that no node has written. */
export function blankDestination(tenantId: string, name: string, version = 0): DestinationRow {
  return {
    tenantId,
    name,
    version,
    document: null,
    pausedAt: null,
    gateUntil: 0,
    breakerState: "CLOSED",
    openUntil: 0,
    openCount: 0,
  };
}

/** A circuit that could have been probed for this long, and was not, means nothing any more. */
export const CIRCUIT_KEPT_MS = 86_400_000;

/** It says no more than no row would: no user has left anything in it, and no guard that still holds. */
export function isMeaningless(row: DestinationRow, now: number): boolean {
  const { document, pausedAt, gateUntil, openUntil } = row;
  const isClosed = !isOpen(row) || openUntil + CIRCUIT_KEPT_MS <= now;
  return document === null && pausedAt === null && gateUntil <= now && isClosed;
}

/** Its circuit is open or half open. */
export function isOpen({ breakerState }: DestinationRow): boolean {
  return breakerState !== "CLOSED";
}

// Destination name: which names a destination may have. Every name must fit into one segment of a
// URL path. A URL parser resolves "." and "..", also when they are percent-encoded, so nobody could
// read or pause such a destination.

const WANTED = '1 to 255 visible ASCII characters and not "." or ".."';

export const destinationNameRule: Rule = textRule(/^(?!\.{1,2}$)[\x21-\x7e]{1,255}$/, WANTED);

/** Throws `INVALID_DESTINATION`. */
export function assertDestinationName(name: unknown): void {
  if (destinationNameRule(name) === undefined) return;
  const problem = fieldProblem("name", name, `name must be ${WANTED}`);
  throw new DocumentError("INVALID_DESTINATION", [problem]);
}
