/**
 * Check file: checks every page and index of a database of any size; opening a file checks only
 * small ones. The file is not changed. No other process may use it meanwhile.
 */
import { openForCheck } from "../file/open.ts";
import { firstColumn } from "../file/sql.ts";

/** The problems that SQLite reports; empty if there are none. Throws like opening the file. */
export function checkSqliteFile(file: string): readonly string[] {
  const { database, close } = openForCheck(file);
  try {
    const found = firstColumn(database, "SELECT * FROM pragma_integrity_check LIMIT 10").map(
      String,
    );
    return found.filter((text) => text !== "ok");
  } finally {
    close();
  }
}
