/**
 * SQL: the only writing connection, its prepared statements and its transactions. After SQLite
 * reports that the file is unreliable, every further use is rejected.
 */
import type { DatabaseSync, StatementSync } from "@photostructure/sqlite";
import { StoreBrokenError } from "../../../model/store-errors.ts";
import { storeError, transactionError } from "./failure.ts";

/** The driver exports its classes as values only. */
export type Database = InstanceType<typeof DatabaseSync>;
export type Statement = InstanceType<typeof StatementSync>;

/**
 * A limit as a parameter of a prepared statement. SQLite plans a bare `LIMIT ?` again whenever it
 * is bound, which makes a claim six times as expensive.
 */
export const ANY_LIMIT = "(? + 0)";

/** Outside of transactions only. Checkpoints and a restart of the log are synced with both. */
const COMMIT_WITH_SYNC = "PRAGMA synchronous = FULL";
const COMMIT_WITHOUT_SYNC = "PRAGMA synchronous = NORMAL";

export interface Sql {
  readonly file: string;
  /** Prepares a statement that returns rows as arrays. */
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
  /** Reads outside of a transaction; a broken store is rejected here too. */
  read<T>(work: () => T): T;
  /**
   * Reports a failure of the same file elsewhere; it applies to this connection too. Returns the
   * error of `storeError`.
   */
  fail(error: unknown): unknown;
}

export function createSql(database: Database, file: string): Sql {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
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

  function runTransaction<T>(work: () => T, onRollback?: () => void): T {
    if (broken !== undefined) throw broken;
    let isWorking = false;
    try {
      begin.run();
      isWorking = true;
      const result = work();
      isWorking = false;
      commit.run();
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
    transaction: runTransaction,
    unsyncedTransaction(work, onRollback) {
      if (broken !== undefined) throw broken;
      database.exec(COMMIT_WITHOUT_SYNC);
      try {
        return runTransaction(work, onRollback);
      } finally {
        // A transaction that cannot be rolled back has broken the store.
        if (!database.isTransaction) database.exec(COMMIT_WITH_SYNC);
      }
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
