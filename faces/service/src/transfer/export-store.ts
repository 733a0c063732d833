/** Export store: writes everything in a store to a file, row by row, in pages of bounded size. */
import { createHash } from "node:crypto";
import { serviceError } from "../model/errors.ts";
import { encodeRow } from "../model/transfer/rows.ts";
import {
  type StoreTransfer,
  TRANSFER_KINDS,
  type TransferKind,
} from "../model/transfer/transfer.ts";
import { headerLine, NO_ROWS, type RowCounts, rowLine, trailerLine } from "./file-format.ts";

export interface ExportOptions {
  /** The kind of store, for the header. */
  readonly store: string;
  readonly now: number;
  /** Resolves when more can be written. */
  write(text: string): Promise<void>;
  /** Called after each page. */
  onProgress?(rows: RowCounts): void;
}

/** A body has at most 64 KiB, and a document may be larger. */
const PAGE_ROWS: RowCounts = {
  policy: 250,
  destination: 250,
  document: 50,
  task: 250,
  attempt: 500,
  key: 1000,
};

/** Throws `STORE_IN_USE` if a node runs on the store before or after the export. */
export async function exportRows(
  transfer: StoreTransfer,
  options: ExportOptions,
): Promise<RowCounts> {
  const { store, now, write, onProgress } = options;
  const hash = createHash("sha256");
  const counts: Record<TransferKind, number> = { ...NO_ROWS };
  const writeLine = (line: string) => {
    hash.update(line);
    return write(line);
  };
  await assertStopped(transfer);
  await writeLine(headerLine({ store, createdAt: now }));
  for (const kind of TRANSFER_KINDS) {
    for await (const rows of pagesOf(transfer, kind)) {
      for (const row of rows) await writeLine(rowLine(kind, encodeRow(kind, row)));
      counts[kind] += rows.length;
      onProgress?.(counts);
    }
  }
  await assertStopped(transfer);
  await write(trailerLine({ rows: counts, sha256: hash.digest("hex") }));
  return counts;
}

async function* pagesOf(transfer: StoreTransfer, kind: TransferKind) {
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await transfer.read(kind, { limit: PAGE_ROWS[kind], cursor });
    yield page.rows;
    cursor = page.cursor;
  }
}

/** Throws `STORE_IN_USE` if a node has a lease. */
export async function assertStopped(transfer: StoreTransfer): Promise<void> {
  const nodes = await transfer.liveNodes();
  if (nodes.length === 0) return;
  const which = nodes.length === 1 ? `node ${nodes[0]} runs` : `${nodes.length} nodes run`;
  const fix = "stop them first; the lease of a node that was killed lasts for 10 seconds";
  throw serviceError("STORE_IN_USE", `${which} on the store: ${fix}`);
}
