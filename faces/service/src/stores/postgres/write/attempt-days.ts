/**
 * Attempt days: the partitions of attempts, one per day of the commit. A day is removed as a whole,
 * after the attempts of tasks that still exist were moved to a table of their own.
 */
import { LOCK_TIMEOUT, sqlState } from "../connection/failure.ts";
import type { Sql } from "../connection/sql.ts";

const DAY_MS = 86_400_000;

/** Attempts that one call examines before their day is removed. */
const EXAMINED = 10_000;

export function dayOf(instant: number): number {
  return Math.floor(instant / DAY_MS);
}

/** Creates the partition of a day, if it does not exist. */
export async function addAttemptDay({ run }: Sql, day: number): Promise<void> {
  await run("SELECT redrive.add_attempt_day($1)", [day]);
}

/** Prepares the next day, and removes a part of the oldest day that ended before `before`. */
export async function followDays(sql: Sql, now: number, before: number): Promise<void> {
  const day = dayOf(now);
  for (const wanted of [day, day + 1]) {
    const known = "SELECT 1 FROM redrive.attempt_days WHERE day = $1";
    if ((await sql.run(known, [wanted])).length === 0) await addAttemptDay(sql, wanted);
  }
  try {
    await sql.run("SELECT redrive.remove_attempt_day($1, $2)", [dayOf(before), EXAMINED]);
  } catch (error) {
    // Removing a partition waits for running commits. It has time until the next call.
    if (sqlState(error) !== LOCK_TIMEOUT) throw error;
  }
}
