/**
 * SQL: the only writing connection, its prepared statements and its transactions. After SQLite
 * reports that the file is unreliable, every further use is rejected.
 */
import type { DatabaseSync, StatementSync } from "@photostructure/sqlite";
import { StoreBrokenError } from "../../../model/store-errors.ts";
import { storeError } from "./failure.ts";
import type { Ledger } from "./ledger.ts";

/** The driver exports its classes as values only. */
export type Database = InstanceType<typeof DatabaseSync>;
export type Statement = InstanceType<typeof StatementSync>;

/**
 * A limit as a parameter of a prepared statement. SQLite plans a bare `LIMIT ?` again whenever it
 * is bound, which makes a claim six times as expensive.
 */
export const ANY_LIMIT = "(? + 0)";

export interface Sql {
  readonly file: string;
  /** Prepares a statement that returns rows as arrays. */
  prepare(text: string): Statement;
  /**
   * Runs `work` in a transaction, which is durable once this returns. Throws the error of
   * `storeError`.
   */
  transaction<T>(work: () => T, onRollback?: () => void): T;
  /** Reads outside of a transaction; a broken store is rejected here too. */
  read<T>(work: () => T): T;
  /** Reports the failure of another connection to the same file; it applies to this one too. */
  fail(error: unknown): void;
}

/** Counts the commits in the ledger, if there is one. */
export function createSql(database: Database, file: string, ledger?: Ledger): Sql {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
  const finish = ledger === undefined ? () => void commit.run() : countedCommit(database, ledger);
  let broken: StoreBrokenError | undefined;

  function translate(error: unknown): unknown {
    const translated = storeError(file, error);
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

  return {
    file,
    prepare(text) {
      const statement = database.prepare(text);
      statement.setReturnArrays(true);
      return statement;
    },
    transaction(work, onRollback) {
      if (broken !== undefined) throw broken;
      try {
        begin.run();
        const result = work();
        finish();
        return result;
      } catch (error) {
        undo();
        const translated = translate(error);
        if (broken === undefined) onRollback?.();
        throw translated;
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
    fail(error) {
      translate(error);
    },
  };
}

/**
 * Commits with the next number in the same transaction, and then records the number. A transaction
 * that changed nothing gets no number, because it would need an fsync for it.
 */
function countedCommit(database: Database, ledger: Ledger): () => void {
  const commit = database.prepare("COMMIT");
  const setNumber = database.prepare("UPDATE meta SET value = ? WHERE name = 'commit'");
  const getChanges = database.prepare("SELECT total_changes()");
  getChanges.setReturnArrays(true);
  const countChanges = () => (getChanges.get() as unknown as readonly [number])[0];
  let known = countChanges();

  return () => {
    const changes = countChanges();
    if (changes === known) {
      commit.run();
      return;
    }
    const number = ledger.commit + 1;
    setNumber.run(number);
    known = changes + 1;
    commit.run();
    ledger.record(number);
  };
}
