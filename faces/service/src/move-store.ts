/**
 * Move store: exports a store to a file, or imports a file into a store, while no service runs on it. Ids,
 * history and keys are kept.
 */
import { messageOf, RedriveError } from "@redrive/core";
import { serviceError } from "./model/errors.ts";
import type { Store } from "./model/store.ts";
import { codedStore } from "./model/store-wrappers/coded-store.ts";
import { type StoreTransfer, transferOf } from "./model/transfer/transfer.ts";
import { openUnsharded, storeTexts } from "./open-store.ts";
import { type ExportOptions, exportRows } from "./transfer/export-store.ts";
import type { RowCounts } from "./transfer/file-format.ts";
import {
  type ImportOptions,
  type ImportResult,
  type ImportSource,
  importRows,
} from "./transfer/import-store.ts";

/** Throws `STORE_IN_USE` while a service runs on the store. */
export function exportStore(store: string, options: ExportOptions): Promise<RowCounts> {
  return withTransfer(store, (transfer) => exportRows(transfer, options));
}

/** Throws `INVALID_IMPORT` for a damaged file, and `STORE_IN_USE` while a service runs on the store. */
export function importStore(
  store: string,
  source: ImportSource,
  options: ImportOptions,
): Promise<ImportResult> {
  return withTransfer(store, (transfer) => importRows(transfer, source, options));
}

async function withTransfer<T>(
  text: string,
  work: (transfer: StoreTransfer) => Promise<T>,
): Promise<T> {
  const { length: count } = storeTexts(text);
  if (count > 1) {
    const message = `store must not be sharded, got ${count} shards: their content cannot be moved`;
    throw serviceError("INVALID_ARGUMENT", message);
  }
  const store = await open(text);
  try {
    const transfer = transferOf(codedStore(store, () => {}));
    if (transfer === undefined) {
      throw serviceError("INVALID_ARGUMENT", "the content of this store cannot be moved");
    }
    return await work(transfer);
  } finally {
    await store.close();
  }
}

async function open(text: string): Promise<Store> {
  try {
    return await openUnsharded(text);
  } catch (error) {
    if (error instanceof RedriveError) throw error;
    throw serviceError(
      "STORE_UNAVAILABLE",
      `the store cannot be opened: ${messageOf(error)}`,
      error,
    );
  }
}
