/**
 * Failure: classifies errors of SQLite. A full disk breaks nothing and may be temporary. After an
 * I/O error, above all a failed fsync, the content of the disk is unknown. Nothing may be
 * acknowledged then, so the store reports itself broken and the process must restart.
 */
import { messageOf } from "@redrive/core";
import {
  StoreBrokenError,
  StoreFullError,
  StoreRefusedError,
} from "../../../model/store-errors.ts";

/** Primary result codes, https://sqlite.org/rescode.html. */
const ERROR = 1;
const BUSY = 5;
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const TOOBIG = 18;
const CONSTRAINT = 19;
const MISMATCH = 20;
const MISUSE = 21;
const RANGE = 25;
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
  const text = messageOf(error);
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

/** The content of a statement is the cause, so it would fail again. */
const REFUSALS: ReadonlySet<number> = new Set([ERROR, TOOBIG, CONSTRAINT, MISMATCH, MISUSE, RANGE]);

/**
 * The error to throw for an error inside a transaction that was rolled back. An error of our own
 * code, for example for a value that cannot be bound, has no code of SQLite.
 */
export function transactionError(file: string, error: unknown): unknown {
  const translated = storeError(file, error);
  if (translated !== error) return translated;
  const code = sqliteCode(error);
  if (code !== 0 && !REFUSALS.has(code)) return error;
  const text = messageOf(error);
  return new StoreRefusedError(`${file} refuses an item: ${text}`, { cause: error });
}
