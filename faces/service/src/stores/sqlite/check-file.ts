/**
 * Check file: looks at every page and every index of a database, however large, which opening it
 * does only for small ones. The file must be nobody else's meanwhile.
 */
import { openFile } from "./open.ts";

/** What is wrong, in SQLite's words; empty if nothing is. Throws what opening the file throws. */
export function checkSqliteFile(file: string): readonly string[] {
  const { database, lock } = openFile(file);
  try {
    const rows = database.prepare("PRAGMA integrity_check(10)").all() as object[];
    const found = rows.map((row) => String(Object.values(row)[0]));
    return found.filter((text) => text !== "ok");
  } finally {
    database.close();
    lock.close();
  }
}
