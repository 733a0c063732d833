/** Removal table: removes dead letters, and rows that nothing uses. */
import { GUARD_DOCUMENT } from "../../model/document-table.ts";
import type { Store, UnusedPage, UnusedQuery } from "../../model/store.ts";
import {
  cursorText,
  cursorTexts,
  LOCK_TIMEOUT,
  type Rows,
  type Run,
  type Sql,
  sqlState,
} from "./connection/sql.ts";

const DISCARD = "SELECT redrive_functions.discard_tasks($1, $2)";
const DESTINATIONS =
  "SELECT removed, last_id FROM redrive_functions.remove_unused_destinations($1, $2, $3)";
const NODES = "SELECT redrive_functions.remove_unused_nodes()";

/** A burst is complete again after this time, so a row without tokens is like a new one. */
const UNUSED_MS = 3_600_000;

/** Guard state of destinations that do not exist: the examined rows, and whether each was removed. */
const GUARDS = `WITH page AS MATERIALIZED (
    SELECT tenant_id, id FROM redrive.documents WHERE kind = $1 AND (tenant_id, id) > ($2, $3)
    ORDER BY tenant_id, id LIMIT $4
  ), gone AS (
    DELETE FROM redrive.documents d USING page p
    WHERE d.kind = $1 AND d.tenant_id = p.tenant_id AND d.id = p.id AND NOT EXISTS (
      SELECT FROM redrive.destinations x WHERE x.tenant_id = p.tenant_id AND x.name = p.id)
    RETURNING d.tenant_id, d.id)
  SELECT p.tenant_id, p.id, g.id IS NOT NULL FROM page p
  LEFT JOIN gone g ON g.tenant_id = p.tenant_id AND g.id = p.id ORDER BY p.tenant_id, p.id`;

/** Limits that no node has a share of, and whose reserved tokens are in the past. */
const LIMITS = `WITH page AS MATERIALIZED (
    SELECT tenant_id, name FROM redrive.limits WHERE (tenant_id, name) > ($1, $2)
    ORDER BY tenant_id, name LIMIT $3
  ), gone AS (
    DELETE FROM redrive.limits l USING page p WHERE l.tenant_id = p.tenant_id AND l.name = p.name
      AND greatest(l.next_token_at, l.next_retry_token_at) < redrive_functions.clock_ms() - ${UNUSED_MS}
      AND NOT EXISTS (SELECT FROM redrive.shares s
        WHERE s.tenant_id = p.tenant_id AND s.name = p.name)
    RETURNING l.tenant_id, l.name)
  SELECT p.tenant_id, p.name, g.name IS NOT NULL FROM page p
  LEFT JOIN gone g ON g.tenant_id = p.tenant_id AND g.name = p.name ORDER BY p.tenant_id, p.name`;

export function removalTable(sql: Sql): Pick<Store, "removeUnused" | "discard"> {
  const { run } = sql;
  return {
    removeUnused: (query) => removeUnused(run, query),
    async discard(tenantId, taskIds) {
      const [row] = await run(DISCARD, [tenantId, taskIds]);
      return Number(row?.[0]);
    },
  };
}

/** First the destinations, then the guard state of those that are gone, then nodes and limits. */
async function removeUnused(run: Run, query: UnusedQuery): Promise<UnusedPage> {
  const { limit, cursor } = query;
  const [part = "destinations", ...position] = cursorTexts(cursor);
  if (part === "destinations") return removeDestinations(run, Number(position[0] ?? 0), query);
  if (part === "guards") {
    const [tenantId = "", id = ""] = position;
    return removePage(
      await run(GUARDS, [GUARD_DOCUMENT, tenantId, id, limit]),
      limit,
      part,
      "nodes",
    );
  }
  if (part === "limits") {
    const [tenantId = "", name = ""] = position;
    return removePage(await run(LIMITS, [tenantId, name, limit]), limit, part, null);
  }
  const [row] = await run(NODES);
  return { removed: Number(row?.[0]), cursor: cursorText(["limits"]) };
}

async function removeDestinations(
  run: Run,
  after: number,
  { limit, now }: UnusedQuery,
): Promise<UnusedPage> {
  const [row] = await run(DESTINATIONS, [after, limit, now]);
  const [removed, lastId = null] = row ?? [];
  const next = lastId === null ? ["guards"] : ["destinations", String(lastId)];
  return { removed: Number(removed), cursor: cursorText(next) };
}

/** The rows of a page: two texts that are its position, and whether the row was removed. */
function removePage(rows: Rows, limit: number, part: string, next: string | null): UnusedPage {
  const removed = rows.filter(([, , isGone]) => isGone === true).length;
  const last = rows.length < limit ? undefined : rows.at(-1);
  if (last !== undefined) return { removed, cursor: cursorText([part, ...last.slice(0, 2)]) };
  return { removed, cursor: next === null ? null : cursorText([next]) };
}

// Sweeper: removes tasks and keys whose retention is over, and old days of attempts. Several nodes may
// sweep at once: each skips the rows that another one has locked.

const SWEEP = `SELECT removed, positions::text
  FROM redrive_functions.sweep_tasks($1, $2, $3, $4, $5::bigint[])`;

/** While a sweep has more to do, the days are followed this often. */
const FOLLOW_MS = 1000;

/** Before the first instant of tasks, dead letters and keys. */
const BEGINNING = "{0,0,0}";

export function sweeper(sql: Sql): Store["sweep"] {
  const days = new AttemptDays(sql);
  let positions: string = BEGINNING;
  let followedAt = 0;
  let isDayLeft = false;
  return async ({ now, endedBefore, deadBefore, limit, isContinued = false }) => {
    const from = isContinued ? positions : BEGINNING;
    const [row] = await sql.run(SWEEP, [now, endedBefore, deadBefore, limit, from]);
    const [removed, next] = row ?? [];
    positions = String(next);
    const isFull = Number(removed) >= limit;
    if (!isFull || isDayLeft || Math.abs(now - followedAt) >= FOLLOW_MS) {
      followedAt = now;
      isDayLeft = await days.follow(now, endedBefore);
    }
    return isDayLeft ? Math.max(limit, Number(removed)) : Number(removed);
  };
}

// Attempt days: the partitions of attempts, one per day of the commit. A day is removed as a whole,
// after the attempts of tasks that still exist were moved to a table of their own.

const DAY_MS = 86_400_000;

/** Attempts that one call examines before their day is removed. */
const EXAMINED = 10_000;

export function dayOf(instant: number): number {
  return Math.floor(instant / DAY_MS);
}

/** Creates the partition of a day, if it does not exist. */
export async function addAttemptDay({ run }: Sql, day: number): Promise<void> {
  await run("SELECT redrive_functions.add_attempt_day($1)", [day]);
}

class AttemptDays {
  readonly #sql: Sql;
  /** Days that have a partition. */
  #known: readonly number[] = [];

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /**
   * Prepares the next day, and removes a part of the oldest day that ended before `before`. True: more
   * of that day is left.
   */
  async follow(now: number, before: number): Promise<boolean> {
    const day = dayOf(now);
    const wanted = [day, day + 1];
    for (const one of wanted) {
      if (!this.#known.includes(one)) await this.#prepare(one);
    }
    this.#known = wanted;
    try {
      const [row] = await this.#sql.run("SELECT redrive_functions.remove_attempt_day($1, $2)", [
        dayOf(before),
        EXAMINED,
      ]);
      return row?.[0] === true;
    } catch (error) {
      // Removing a partition waits for running commits. It has time until the next call.
      if (sqlState(error) !== LOCK_TIMEOUT) throw error;
      return false;
    }
  }

  async #prepare(day: number): Promise<void> {
    const known = "SELECT 1 FROM redrive.attempt_days WHERE day = $1";
    if ((await this.#sql.run(known, [day])).length === 0) await addAttemptDay(this.#sql, day);
  }
}
