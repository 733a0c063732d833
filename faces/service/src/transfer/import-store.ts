/**
 * Import store: adds the rows of an exported store to another one. Rows that the store has already are
 * skipped, so an import that was interrupted is run again. A row that differs stops it.
 */
import { positionOf } from "../model/transfer/compare.ts";
import {
  type StoreTransfer,
  TRANSFER_KINDS,
  type TransferKind,
  type WriteResult,
} from "../model/transfer/transfer.ts";
import { assertStopped } from "./export-store.ts";
import { NO_ROWS, type RowCounts } from "./file-format.ts";
import { type FileRow, fileRows, totalOf } from "./file-rows.ts";

export interface ImportSource {
  /** The bytes of the file, from its beginning. */
  open(): AsyncIterable<Uint8Array>;
  /** True if it can be opened twice. Then the whole file is checked before the first row is written. */
  readonly isRepeatable: boolean;
}

export interface ImportOptions {
  /** Only checks and compares. */
  readonly dryRun: boolean;
  /** Called after each batch. */
  onProgress?(progress: ImportProgress): void;
}

export interface ImportProgress {
  /** Rows that were read in this pass. */
  readonly rows: number;
  /** All rows of the file; null in the first pass. */
  readonly total: number | null;
  /** False: the rows are only checked in this pass. */
  readonly isWriting: boolean;
  /** Rows that were added to the store. */
  readonly added: number;
}

export interface Difference {
  readonly line: number;
  readonly kind: TransferKind;
  /** What identifies the row. */
  readonly row: string;
}

export interface ImportResult {
  readonly rows: RowCounts;
  readonly added: number;
  /** Rows that the store had already. */
  readonly same: number;
  /** The first ones. If there are any, the import has stopped, or not begun. */
  readonly different: readonly Difference[];
}

const BATCH_ROWS = 256;
const BATCH_BYTES = 2 * 1024 * 1024;
const MAX_DIFFERENCES = 10;

/**
 * Throws `INVALID_IMPORT` if the file is damaged or incomplete, and `STORE_IN_USE` if a node runs on the
 * store before or after the import.
 */
export async function importRows(
  transfer: StoreTransfer,
  source: ImportSource,
  options: ImportOptions,
): Promise<ImportResult> {
  await assertStopped(transfer);
  const { isRepeatable } = source;
  const context = { transfer, source, onProgress: options.onProgress };
  if (options.dryRun) return pass({ ...context, mode: "compare", total: null });
  if (!isRepeatable)
    return written(transfer, await pass({ ...context, mode: "write", total: null }));
  const mode = (await isEmpty(transfer)) ? "check" : "compare";
  const found = await pass({ ...context, mode, total: null });
  if (found.different.length > 0) return { ...found, added: 0 };
  const total = totalOf(found.rows);
  return written(transfer, await pass({ ...context, mode: "write", total }));
}

/** A node that has started meanwhile may have run tasks of a part of the file. */
async function written(transfer: StoreTransfer, result: ImportResult): Promise<ImportResult> {
  await assertStopped(transfer);
  return result;
}

async function isEmpty(transfer: StoreTransfer): Promise<boolean> {
  for (const kind of TRANSFER_KINDS) {
    const { rows, cursor } = await transfer.read(kind, { limit: 1 });
    if (rows.length > 0 || cursor !== null) return false;
  }
  return true;
}

interface Batch {
  readonly kind: TransferKind;
  readonly rows: readonly FileRow[];
}

interface Pass {
  readonly transfer: StoreTransfer;
  readonly source: ImportSource;
  /** `check` reads only the file. */
  readonly mode: "check" | "compare" | "write";
  readonly total: number | null;
  readonly onProgress: ImportOptions["onProgress"];
}

/** Reads the file once. A row that differs ends a pass that writes. */
async function pass({ transfer, source, mode, total, onProgress }: Pass): Promise<ImportResult> {
  const counts: Record<TransferKind, number> = { ...NO_ROWS };
  const different: Difference[] = [];
  const isWriting = mode === "write";
  let added = 0;
  let same = 0;
  for await (const batch of batchesOf(fileRows(source.open()))) {
    const results = await resultsOf(transfer, batch, mode);
    counts[batch.kind] += batch.rows.length;
    for (const [at, { line, kind, row }] of batch.rows.entries()) {
      if (results[at] === "added") added++;
      else if (results[at] === "same") same++;
      else different.push({ line, kind, row: positionOf(kind, row).join(" ") });
    }
    onProgress?.({ rows: totalOf(counts), total, isWriting, added: isWriting ? added : 0 });
    if (different.length > 0 && isWriting) break;
    if (different.length >= MAX_DIFFERENCES) different.length = MAX_DIFFERENCES;
  }
  return { rows: counts, added, same, different };
}

async function resultsOf(
  transfer: StoreTransfer,
  { kind, rows }: Batch,
  mode: Pass["mode"],
): Promise<readonly WriteResult[]> {
  if (mode === "check") return rows.map(() => "added");
  return transfer[mode](
    kind,
    rows.map(({ row }) => row as never),
  );
}

/** Rows of one kind, in bounded numbers. */
async function* batchesOf(rows: AsyncIterable<FileRow>): AsyncGenerator<Batch> {
  let batch: FileRow[] = [];
  let bytes = 0;
  for await (const row of rows) {
    const [first] = batch;
    const isFull = batch.length >= BATCH_ROWS || bytes + row.bytes > BATCH_BYTES;
    if (first !== undefined && (isFull || first.kind !== row.kind)) {
      yield { kind: first.kind, rows: batch };
      batch = [];
      bytes = 0;
    }
    batch.push(row);
    bytes += row.bytes;
  }
  const [first] = batch;
  if (first !== undefined) yield { kind: first.kind, rows: batch };
}
