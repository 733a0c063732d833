/** Destination codec: the stored form of a destination row. Scripts read its first three cells. */
import type { DestinationRow } from "../../../model/destination-row.ts";
import { type Packable, pack, unpackList } from "./message-pack.ts";

/** The version comes first, then what scripts keep lists of: open circuits and pauses. */
export function rowCells(row: DestinationRow): readonly Packable[] {
  return [
    row.version,
    row.breakerState,
    row.pausedAt,
    row.tenantId,
    row.name,
    row.document,
    row.gateUntil,
    row.openUntil,
    row.openCount,
  ];
}

export function packRow(row: DestinationRow): Buffer {
  return pack(rowCells(row));
}

export function rowOf(stored: Buffer): DestinationRow {
  const cells = unpackList(stored);
  return {
    tenantId: cells[3] as string,
    name: cells[4] as string,
    version: cells[0] as number,
    document: cells[5] as string | null,
    pausedAt: cells[2] as number | null,
    gateUntil: cells[6] as number,
    breakerState: cells[1] as DestinationRow["breakerState"],
    openUntil: cells[7] as number,
    openCount: cells[8] as number,
  };
}
