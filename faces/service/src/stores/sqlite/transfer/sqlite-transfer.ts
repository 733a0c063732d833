/** SQLite transfer: moves the content of a SQLite store. Each call that writes is one transaction. */
import { addedRows, compareRows } from "../../../model/transfer/compare.ts";
import type {
  StoreTransfer,
  TransferKind,
  TransferRows,
} from "../../../model/transfer/transfer.ts";
import type { BatchSize } from "../file/checkpointer.ts";
import type { Sql } from "../file/sql.ts";
import type { Reader } from "../read/reader.ts";
import type { DestinationTable } from "../tables/destination-table.ts";
import { rowReader } from "./row-reader.ts";
import { type RowWriter, rowWriter } from "./row-writer.ts";

/** `written` is called with the size of what each transaction added. */
export function sqliteTransfer(
  sql: Sql,
  reader: Reader,
  destinations: DestinationTable,
  written: (size: BatchSize) => void,
): StoreTransfer {
  // Most processes never move a store, so its statements are prepared when they are needed.
  let prepared: RowWriter | undefined;
  const writer = () => {
    prepared ??= rowWriter(sql, destinations);
    return prepared;
  };
  const compare = <Kind extends TransferKind>(kind: Kind, rows: readonly TransferRows[Kind][]) =>
    compareRows(
      kind,
      rows,
      rows.map((row) => writer()[kind].find(row)),
    );
  return {
    // The lock of the file keeps other processes out.
    liveNodes: async () => [],
    read: rowReader(reader),
    compare: async (kind, rows) => sql.read(() => compare(kind, rows)),
    async write(kind, rows) {
      const results = sql.transaction(
        () => {
          const found = compare(kind, rows);
          for (const row of addedRows(rows, found)) writer()[kind].add(row);
          destinations.flush();
          return found;
        },
        () => destinations.undo(),
      );
      const added = addedRows(rows, results);
      written({ items: added.length, bytes: added.reduce((sum, row) => sum + bodyOf(row), 0) });
      return results;
    },
  };
}

function bodyOf(row: TransferRows[TransferKind]): number {
  return "body" in row ? (row.body?.length ?? 0) : 0;
}
