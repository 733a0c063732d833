/**
 * Check file: checks every page and index of a database of any size; opening a file checks only
 * small ones. No other process may use the file meanwhile.
 */
import { openFile } from "./open.ts";

/** The problems that SQLite reports; empty if there are none. Throws like opening the file. */
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
