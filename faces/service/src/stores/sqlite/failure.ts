/**
 * Failure: what an error of SQLite means for us. A full disk breaks nothing and may pass. An I/O
 * error, a failed fsync above all, leaves unknown what is on the disk: after it nothing may be
 * acknowledged any more, so the store declares itself broken and the process must start anew.
 */
import { StoreBrokenError, StoreFullError } from "../../model/store-errors.ts";

/** Primary result codes, https://sqlite.org/rescode.html. */
const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** The primary code of an error of SQLite; 0 for any other error. */
export function sqliteCode(error: unknown): number {
  const code = (error as { readonly errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : 0;
}

export function isBusy(error: unknown): boolean {
  return sqliteCode(error) === BUSY;
}

/** The error to throw for one of SQLite's. */
export function storeError(file: string, error: unknown): unknown {
  const text = error instanceof Error ? error.message : String(error);
  switch (sqliteCode(error)) {
    case FULL:
      return new StoreFullError(`no space left for ${file}: ${text}`, { cause: error });
    case READONLY:
    case IOERR:
    case CORRUPT:
    case CANTOPEN:
      return new StoreBrokenError(`${file} failed, stop and start anew: ${text}`, { cause: error });
    case NOTADB: {
      const fix = "give Redrive a file of its own, or restore it from a backup";
      return new StoreBrokenError(`${file} is not a database: ${fix}`, { cause: error });
    }
    default:
      return error;
  }
}
