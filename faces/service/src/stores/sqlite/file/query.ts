/**
 * Query: reads single values while a file is opened and checked. The driver has no way to finalize a
 * prepared statement, and a connection with one stays open after `close()` until it is garbage
 * collected, together with its locks. So these reads use none.
 */
import type { Database } from "./sql.ts";

/** The first value of the first row; undefined if there is no row, null for NULL. */
export function firstValue(database: Database, query: string): unknown {
  return firstColumn(database, query)[0];
}

/** The first column of all rows. */
export function firstColumn(database: Database, query: string): readonly unknown[] {
  const found: unknown[] = [];
  database.function("redrive_found", (value: unknown) => {
    found.push(value);
    return null;
  });
  database.exec(`WITH rows(value) AS (${query}) SELECT redrive_found(value) FROM rows`);
  return found;
}
