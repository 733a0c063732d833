/**
 * Destination rows: the columns of `destinations`, and the rows that they hold.
 */
import type { DestinationRow } from "../../../model/destination-row.ts";
import { type Cell, columnList, placeholders, positionsOf } from "./codec.ts";

/** The columns that identify a destination. They never change. */
const DESTINATION_NAME = { tenantId: "tenant_id", name: "name" } as const;

const DESTINATION_STATE = {
  version: "version",
  document: "document",
  pausedAt: "paused_at",
  gateUntil: "gate_until",
  breakerState: "breaker_state",
  openUntil: "open_until",
  openCount: "open_count",
} as const;

const DESTINATION = { ...DESTINATION_NAME, ...DESTINATION_STATE } as const;
const DESTINATION_FIELDS = Object.keys(DESTINATION) as readonly (keyof typeof DESTINATION)[];
const STATE_FIELDS = Object.keys(DESTINATION_STATE) as readonly (keyof typeof DESTINATION_STATE)[];

/** Of the table `d`: the cells of `destinationOf`, then the id. */
export const DESTINATION_COLUMNS: string = [...Object.values(DESTINATION), "destination_id"]
  .map((column) => `d.${column}`)
  .join(", ");

/** The position of `destination_id` in those columns. */
export const DESTINATION_ID: number = DESTINATION_FIELDS.length;

export const INSERT_DESTINATION: string = `INSERT INTO destinations (${columnList(DESTINATION)})
  VALUES (${placeholders(DESTINATION)})`;

/** Takes the cells of `destinationState`, then the id. */
export const UPDATE_DESTINATION: string = `UPDATE destinations
  SET ${STATE_FIELDS.map((field) => `${DESTINATION_STATE[field]} = ?`).join(", ")}
  WHERE destination_id = ?`;

const destinationPositions = positionsOf(DESTINATION);

export function destinationOf(cells: readonly Cell[]): DestinationRow {
  const at = destinationPositions;
  return {
    tenantId: cells[at.tenantId] as string,
    name: cells[at.name] as string,
    version: cells[at.version] as number,
    document: cells[at.document] as string | null,
    pausedAt: cells[at.pausedAt] as number | null,
    gateUntil: cells[at.gateUntil] as number,
    breakerState: cells[at.breakerState] as DestinationRow["breakerState"],
    openUntil: cells[at.openUntil] as number,
    openCount: cells[at.openCount] as number,
  };
}

/** The cells of a new row of `destinations`. */
export function destinationCells(row: DestinationRow): Cell[] {
  return DESTINATION_FIELDS.map((field) => row[field]);
}

/** The cells that an update changes. */
export function destinationState(row: DestinationRow): Cell[] {
  return STATE_FIELDS.map((field) => row[field]);
}
