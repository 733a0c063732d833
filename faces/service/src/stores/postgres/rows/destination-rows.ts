/** Destination rows: the row of a destination as the functions of the server write and read it. */
import type { BreakerState } from "@redrive/core";
import type { DestinationRow } from "../../../model/destination-row.ts";
import type { Cell } from "../connection/cells.ts";

export const DESTINATION_COLUMNS = `d.tenant_id, d.name, d.version, d.document, d.paused_at,
  d.gate_until, d.breaker_state, d.open_until, d.open_count`;

/** The number of cells that `destinationOf` reads. */
export const DESTINATION_CELLS = 9;

export type DestinationCells = readonly Cell[];

export function destinationOf(cells: DestinationCells): DestinationRow {
  return {
    tenantId: cells[0] as string,
    name: cells[1] as string,
    version: cells[2] as number,
    document: cells[3] as string | null,
    pausedAt: cells[4] as number | null,
    gateUntil: cells[5] as number,
    breakerState: cells[6] as BreakerState,
    openUntil: cells[7] as number,
    openCount: cells[8] as number,
  };
}

export function destinationCells(row: DestinationRow): DestinationCells {
  return [
    row.tenantId,
    row.name,
    row.version,
    row.document,
    row.pausedAt,
    row.gateUntil,
    row.breakerState,
    row.openUntil,
    row.openCount,
  ];
}
