/**
 * Failure: classifies errors of SQLite. A full disk breaks nothing and may be temporary. After an
 * I/O error, above all a failed fsync, the content of the disk is unknown. Nothing may be
 * acknowledged then, so the store reports itself broken and the process must restart.
 */
import { StoreBrokenError, StoreFullError } from "../../../model/store-errors.ts";

/** Primary result codes, https://sqlite.org/rescode.html. */
const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

/** The primary code of a SQLite error; 0 for any other error. */
export function sqliteCode(error: unknown): number {
  const code = (error as { readonly errcode?: unknown } | null)?.errcode;
  return typeof code === "number" ? code & 0xff : 0;
}

export function isBusy(error: unknown): boolean {
  return sqliteCode(error) === BUSY;
}

/** The error to throw for an error of SQLite. */
export function storeError(file: string, error: unknown): unknown {
  const text = error instanceof Error ? error.message : String(error);
  switch (sqliteCode(error)) {
    case BUSY: {
      const fix = "end its transaction; Redrive tries again";
      return new Error(`another program is writing to ${file}: ${fix}`, {
        cause: error,
      });
    }
    case FULL:
      return new StoreFullError(`no space left for ${file}: ${text}`, { cause: error });
    case READONLY:
    case IOERR:
    case CORRUPT:
    case CANTOPEN:
      return new StoreBrokenError(`${file} failed, restart the process: ${text}`, { cause: error });
    case NOTADB: {
      const fix = "give Redrive a separate file, or restore it from a backup";
      return new StoreBrokenError(`${file} is not a database: ${fix}`, { cause: error });
    }
    default:
      return error;
  }
}
