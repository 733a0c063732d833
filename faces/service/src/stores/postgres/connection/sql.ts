/**
 * Sql: runs statements on a pool of connections. Each call ends within the time of a store's call:
 * a connection that does not respond is closed, and the outcome of its statement is unknown.
 *
 * The pool may be behind a pooler in transaction mode, so a connection keeps no state between
 * transactions: no settings, no named statements.
 */
import { type Clock, systemClock } from "@redrive/core";
import type { Pool, PoolClient } from "pg";
import { STORE_CALL_MS } from "../../../model/store.ts";
import { inSchema } from "./address.ts";
import { CELL_TYPES, type Cell, type Param } from "./cells.ts";
import { isConflict, storeError } from "./failure.ts";
import { storedText } from "./stored-text.ts";

/** Transactions that met are repeated this often. */
const MAX_REPEATS = 3;

/** Less than a call of a store, so that the server's own error arrives in time. */
const CALL_MS = STORE_CALL_MS - 250;
const STATEMENT_MS = STORE_CALL_MS - 1000;

export type Rows = readonly (readonly Cell[])[];
export type Run = (sql: string, params?: readonly Param[]) => Promise<Rows>;

/** Runs several statements without parameters, separated by semicolons. */
export type Script = (sql: string) => Promise<unknown>;

export interface Sql {
  readonly schema: string;
  /** One statement, in its own transaction. Repeated if it met another transaction. */
  readonly run: Run;
  /** Reads in one read-only transaction, with a limit on the time of each statement. */
  read<T>(work: (run: Run) => Promise<T>): Promise<T>;
  /** Several statements in one transaction, as a migration. Not limited in time. */
  transaction<T>(work: (run: Run, script: Script) => Promise<T>): Promise<T>;
}

export function createSql(pool: Pool, schema: string, clock: Clock = systemClock): Sql {
  const runOn =
    (client: PoolClient): Run =>
    async (sql, params = []) => {
      const text = inSchema(schema, sql);
      const values = params.map(paramOf);
      const types = CELL_TYPES as never;
      const query = { text, values, types, rowMode: "array" as const };
      return (await client.query<Cell[]>(query)).rows;
    };
  const within = <T>(work: (client: PoolClient) => Promise<T>, endMs = endOf(clock)) =>
    withClient(pool, clock, work, endMs);
  return {
    schema,
    run(sql, params) {
      const endMs = endOf(clock);
      return repeated(() => within((client) => runOn(client)(sql, params), endMs));
    },
    read: (work) =>
      within(async (client) => {
        await client.query(`BEGIN READ ONLY; SET LOCAL statement_timeout = ${STATEMENT_MS}`);
        const result = await work(runOn(client));
        await client.query("COMMIT");
        return result;
      }),
    async transaction(work) {
      const client = await pool.connect();
      let failure: unknown;
      try {
        await client.query("BEGIN");
        const script = (text: string) => client.query(inSchema(schema, text));
        const result = await work(runOn(client), script);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        client.release(failure !== undefined);
      }
    },
  };
}

function paramOf(param: Param): unknown {
  if (typeof param === "string") return storedText(param);
  if (Array.isArray(param)) return param.map(paramOf);
  if (param instanceof Uint8Array) return Buffer.from(param.buffer, param.byteOffset, param.length);
  return param;
}

async function repeated<T>(work: () => Promise<T>): Promise<T> {
  for (let repeats = 0; ; repeats++) {
    try {
      return await work();
    } catch (error) {
      if (repeats >= MAX_REPEATS || !isConflict(error)) throw storeError(error);
    }
  }
}

/** When a call that starts now must have ended. */
function endOf(clock: Clock): number {
  return clock.monotonicMs() + CALL_MS;
}

/** A connection with an error, or one that does not respond in time, is closed. */
async function withClient<T>(
  pool: Pool,
  clock: Clock,
  work: (client: PoolClient) => Promise<T>,
  endMs: number,
): Promise<T> {
  const client = await pool.connect();
  let isReleased = false;
  const release = (error?: Error) => {
    if (!isReleased) client.release(error);
    isReleased = true;
  };
  const leftMs = Math.max(1, endMs - clock.monotonicMs());
  const late = new Error(`PostgreSQL did not respond within ${CALL_MS} ms`);
  const cancel = clock.alarm(leftMs, () => release(late), true);
  try {
    const result = await work(client);
    release();
    return result;
  } catch (error) {
    release(error instanceof Error ? error : new Error(String(error)));
    throw error;
  } finally {
    cancel();
  }
}
