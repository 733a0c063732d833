/**
 * Clock repair: resets the instants of a file that a service wrote with a clock that was far ahead.
 * Otherwise engine time, which never goes backwards, would stay ahead. The last write counts as now.
 * No other process may use the file meanwhile.
 */
import { KEY_RETENTION_MS } from "../../../model/store.ts";
import { openFile, openForCheck } from "./open.ts";
import { type Database, firstValue } from "./sql.ts";

/** The latest stored instant. Commits do not write `now`, so the newest task counts too. */
export const LATEST_AT_QUERY = `SELECT max(
  ifnull((SELECT value FROM meta WHERE name = 'now'), 0),
  ifnull((SELECT created_at FROM payloads ORDER BY ref DESC LIMIT 1), 0))`;

export interface ClockRepair {
  /** How far the file was ahead; 0: it was not, and nothing was changed. */
  readonly aheadMs: number;
  /** The number of waiting tasks whose next attempt was moved back. */
  readonly waitingTasks: number;
}

/** The latest stored instant; 0 in an empty file. */
export function readSqliteClock(file: string): number {
  const { database, close } = openForCheck(file);
  try {
    return latestAt(database);
  } finally {
    close();
  }
}

/** Moves every instant later than `now` back by the difference. Saved guard state is removed. */
export function repairSqliteClock(file: string, now: number): ClockRepair {
  return withFile(file, (database) => {
    const aheadMs = latestAt(database) - now;
    if (aheadMs <= 0) return { aheadMs: 0, waitingTasks: 0 };
    database.exec("BEGIN IMMEDIATE");
    try {
      const waitingTasks = repair(database, now, aheadMs);
      database.exec("COMMIT");
      return { aheadMs, waitingTasks };
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  });
}

function withFile<T>(file: string, work: (database: Database) => T): T {
  const { database, close } = openFile(file);
  try {
    return work(database);
  } finally {
    close();
  }
}

function latestAt(database: Database): number {
  return Number(firstValue(database, LATEST_AT_QUERY));
}

/** Tasks that were created or attempted after `?1`, so that their schedule comes from the wrong clock. */
const WRONG_TASKS = `SELECT ref FROM payloads WHERE created_at > ?1
  UNION SELECT ref FROM attempts WHERE started_at > ?1`;

function repair(database: Database, now: number, aheadMs: number): number {
  const run = (text: string, ...values: number[]) =>
    Number(database.prepare(text).run(...values).changes);
  // First: the rows below say which tasks these are.
  const waiting = `UPDATE tasks SET next_attempt_at = max(0, next_attempt_at - ?2)
    WHERE ref IN (${WRONG_TASKS}) AND finished_at IS NULL`;
  const waitingTasks = run(waiting, now, aheadMs);
  const schedule = `UPDATE payloads SET scheduled_at = max(0, scheduled_at - ?2),
    deadline_at = max(0, deadline_at - ?2) WHERE created_at > ?1`;
  run(schedule, now, aheadMs);
  run("UPDATE idempotency_keys SET expires_at = min(expires_at, ?1)", now + KEY_RETENTION_MS);
  for (const { table, column } of instantColumns(database)) {
    const text = `UPDATE ${table} SET ${column} = max(0, ${column} - ?2) WHERE ${column} > ?1`;
    run(text, now, aheadMs);
  }
  run("UPDATE meta SET value = ?1 WHERE name = 'now'", now);
  run("DELETE FROM documents WHERE kind IN ('guards', 'retry-budget')");
  return waitingTasks;
}

/** These may legally lie in the future, and are repaired above. */
const SCHEDULES: ReadonlySet<unknown> = new Set([
  "next_attempt_at",
  "scheduled_at",
  "deadline_at",
  "expires_at",
]);

interface Column {
  readonly table: string;
  readonly column: string;
}

/** Every column that holds the instant of something that has happened, or the end of a hold. */
function instantColumns(database: Database): readonly Column[] {
  const text = `SELECT m.name AS "table", c.name AS "column" FROM sqlite_schema m,
    pragma_table_info(m.name) c WHERE m.type = 'table' AND (c.name LIKE '%\\_at' ESCAPE '\\'
    OR c.name LIKE '%\\_until' ESCAPE '\\')`;
  const columns = database.prepare(text).all() as unknown as readonly Column[];
  return columns.filter(({ column }) => !SCHEDULES.has(column));
}
