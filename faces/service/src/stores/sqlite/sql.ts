/**
 * Sql: the one writing connection, its prepared statements and its transactions. Once SQLite has
 * reported that it cannot vouch for the file, every further use is refused.
 */
import type { DatabaseSync, StatementSync } from "@photostructure/sqlite";
import { StoreBrokenError } from "../../model/store-errors.ts";
import { storeError } from "./failure.ts";

/** The driver exports its classes as values only. */
export type Database = InstanceType<typeof DatabaseSync>;
export type Statement = InstanceType<typeof StatementSync>;

/**
 * A limit that is a parameter, in a prepared statement. SQLite looks at a bare `LIMIT ?` when it
 * plans and plans anew whenever it is bound, which costs a claim six times its own work.
 */
export const ANY_LIMIT = "(? + 0)";

export interface Sql {
  readonly file: string;
  /** A statement whose rows come as arrays. */
  prepare(text: string): Statement;
  /** Runs `work` in a transaction; it is durable once this returns. Throws what `storeError` says. */
  transaction<T>(work: () => T, onRollback?: () => void): T;
  /** Reading outside a transaction, with the same refusals. */
  read<T>(work: () => T): T;
  /** Another connection to the file has failed: what that means for it holds for this one too. */
  fail(error: unknown): void;
}

export function createSql(database: Database, file: string): Sql {
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const rollback = database.prepare("ROLLBACK");
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
        commit.run();
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
