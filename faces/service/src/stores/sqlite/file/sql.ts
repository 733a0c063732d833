/**
 * SQL: the only writing connection, its prepared statements and its transactions. After SQLite
 * reports that the file is unreliable, every further use is rejected.
 */
import { StoreBrokenError } from "../../../model/store-errors.ts";
import type { Database, Statement } from "./database.ts";
import { storeError, transactionError } from "./failure.ts";
import type { Ledger } from "./ledger.ts";
import { numberedCommits } from "./numbered-commits.ts";

export type { Database, Statement } from "./database.ts";

/**
 * A limit as a parameter of a prepared statement. SQLite plans a bare `LIMIT ?` again whenever it
 * is bound, which makes a claim six times as expensive.
 */
export const ANY_LIMIT = "(? + 0)";

/**
 * Up to this many rows are read on the writing connection: they take a fraction of a millisecond, and
 * the thread of a reader need not start for them.
 */
export const FEW_ROWS = 100;

/** Outside of transactions only. Checkpoints and a restart of the log are synced with both. */
const COMMIT_WITH_SYNC = "PRAGMA synchronous = FULL";
const COMMIT_WITHOUT_SYNC = "PRAGMA synchronous = NORMAL";

export interface Sql {
  readonly file: string;
  /**
   * Prepares a statement that returns rows as arrays. Where every microsecond counts, `get` runs a write
   * whose result nobody needs: `run` builds an object with the result.
   */
  prepare(text: string): Statement;
  /**
   * Runs `work` in a transaction, which is durable once this returns. Throws the error of
   * `storeError`, and for a failure of `work` that of `transactionError`.
   */
  transaction<T>(work: () => T, onRollback?: () => void): T;
  /**
   * Like `transaction`, but it is durable only with the next transaction or checkpoint. A power cut
   * may undo it, as a whole and with nothing before it.
   */
  unsyncedTransaction<T>(work: () => T, onRollback?: () => void): T;
  /**
   * Like `transaction`, but it is durable only once the log is synced. The caller syncs the log, and
   * then calls `recordSync`.
   */
  laterSyncedTransaction<T>(work: () => T, onRollback?: () => void): LaterSynced<T>;
  /** Reads outside of a transaction; a broken store is rejected here too. */
  read<T>(work: () => T): T;
  /**
   * Reports a failure of the same file elsewhere; it applies to this connection too. Returns the
   * error of `storeError`.
   */
  fail(error: unknown): unknown;
}

export interface LaterSynced<T> {
  readonly result: T;
  recordSync(): void;
}

/** Counts the commits in the ledger, if there is one. */
export function createSql(database: Database, file: string, ledger?: Ledger): Sql {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const rollback = database.prepare("ROLLBACK");
  const { commit, commitUncounted, record } = numberedCommits(database, ledger);
  const finish = () => record(commit());
  const setSync = syncSwitch(database);
  let broken: StoreBrokenError | undefined;
  function translate(error: unknown, convert = storeError): unknown {
    const translated = convert(file, error);
    if (translated instanceof StoreBrokenError) broken = translated;
    return translated;
  }

  function undo(): void {
    try {
      if (database.isTransaction) rollback.run();
    } catch (error) {
      translate(error);
    }
  }

  function runTransaction<T>(
    isSynced: boolean,
    work: () => T,
    onRollback: (() => void) | undefined,
    end: () => void,
  ): T {
    if (broken !== undefined) throw broken;
    let isWorking = false;
    try {
      setSync(isSynced);
      begin.get();
      isWorking = true;
      const result = work();
      isWorking = false;
      end();
      return result;
    } catch (error) {
      undo();
      const translated = translate(error, isWorking ? transactionError : storeError);
      if (broken === undefined) onRollback?.();
      throw translated;
    }
  }

  return {
    file,
    prepare(text) {
      const statement = database.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    },
    transaction: (work, onRollback) => runTransaction(true, work, onRollback, finish),
    // Without a number: after a power cut, the ledger would have more commits than the file.
    unsyncedTransaction: (work, onRollback) =>
      runTransaction(false, work, onRollback, commitUncounted),
    laterSyncedTransaction(work, onRollback) {
      let number = 0;
      const result = runTransaction(false, work, onRollback, () => {
        number = commit();
      });
      return { result, recordSync: () => record(number) };
    },
    read(work) {
      if (broken !== undefined) throw broken;
      try {
        return work();
      } catch (error) {
        throw translate(error);
      }
    },
    fail: (error) => translate(error),
  };
}

/** Parsing the pragma costs as much as writing a row, so it runs only if it changes something. */
function syncSwitch(database: Database): (isSynced: boolean) => void {
  let current = true;
  return (isSynced) => {
    if (isSynced === current) return;
    database.exec(isSynced ? COMMIT_WITH_SYNC : COMMIT_WITHOUT_SYNC);
    current = isSynced;
  };
}
