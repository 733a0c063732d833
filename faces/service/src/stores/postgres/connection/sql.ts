/**
 * Sql: runs statements on a pool of connections. Each call ends within the time of a store's call:
 * a connection that does not respond is closed, and the outcome of its statement is unknown.
 *
 * The pool may be behind a pooler in transaction mode, so a connection keeps no state between
 * transactions: no settings, no named statements.
 */
import { type Clock, messageOf, systemClock } from "@redrive/core";
import type { Client, Pool, PoolClient } from "pg";
import { STORE_CALL_MS } from "../../../model/store.ts";
import { StoreFullError, StoreRefusedError } from "../../../model/store-errors.ts";
import { functionsSchema, inSchema } from "./address.ts";
import { CELL_TYPES, type Cell, type Param, storedText } from "./values.ts";

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
  /** The schema of the tables, and that of the functions which this program calls. */
  readonly schema: string;
  readonly functions: string;
  /** Of the functions. */
  readonly version: number;
  /** One statement, in its own transaction. Repeated if it met another transaction. */
  readonly run: Run;
  /** Reads in one read-only transaction, with a limit on the time of each statement. */
  read<T>(work: (run: Run) => Promise<T>): Promise<T>;
  /** Several statements in one transaction, as a migration. Not limited in time. */
  transaction<T>(work: (run: Run, script: Script) => Promise<T>): Promise<T>;
}

/** `version`: of the functions. */
export function createSql(
  pool: Pool,
  schema: string,
  version: number,
  clock: Clock = systemClock,
): Sql {
  const functions = functionsSchema(schema, version);
  const runOn =
    (client: PoolClient): Run =>
    async (sql, params = []) => {
      const text = inSchema(schema, functions, sql);
      const values = params.map(paramOf);
      const types = CELL_TYPES as never;
      const query = { text, values, types, rowMode: "array" as const };
      return (await client.query<Cell[]>(query)).rows;
    };
  const abandoned = new AbandonedCalls(pool, clock);
  const within = <T>(work: (client: PoolClient) => Promise<T>, endMs = endOf(clock)) =>
    withClient({ pool, clock, abandoned }, work, endMs);
  return {
    schema,
    functions,
    version,
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
        const script = (text: string) => client.query(inSchema(schema, functions, text));
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

interface ClientParts {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly abandoned: AbandonedCalls;
}

/** A connection with an error, or one that does not respond in time, is closed. */
async function withClient<T>(
  { pool, clock, abandoned }: ClientParts,
  work: (client: PoolClient) => Promise<T>,
  endMs: number,
): Promise<T> {
  if (abandoned.areMany()) await abandoned.assertFew();
  const client = await pool.connect();
  let isReleased = false;
  const release = (error?: Error) => {
    if (!isReleased) client.release(error);
    isReleased = true;
  };
  const leftMs = Math.max(1, endMs - clock.monotonicMs());
  const late = new Error(`PostgreSQL did not respond within ${CALL_MS} ms`);
  const abandon = () => {
    abandoned.add(client);
    release(late);
  };
  const cancel = clock.alarm(leftMs, abandon, true);
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

// Pool: opens the connections of a PostgreSQL store. The driver is loaded only here, so a process
// without such a store does not load it.

export interface PoolOptions {
  /** Connections at once. Default: `connections` of the URL. */
  readonly maxConnections?: number;
}

/** A connection must be free, or open, within this time. */
const CONNECT_MS = 3000;
const IDLE_MS = 30_000;
const KEEP_ALIVE_MS = 5000;

/** The driver reports the loss of an idle connection here; the next statement opens another. */
const ignoreLoss = () => {};

export async function openPool(url: string, maxConnections: number): Promise<Pool> {
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ ...settingsOf(url), max: maxConnections });
  pool.on("error", ignoreLoss);
  // A connection that is in use reports its loss to the statement, and here as well.
  pool.on("connect", (client) => client.on("error", ignoreLoss));
  return pool;
}

/** A single connection that is not shared, not yet connected. */
export async function openClient(url: string): Promise<Client> {
  const { default: pg } = await import("pg");
  return new pg.Client(settingsOf(url));
}

function settingsOf(url: string) {
  return {
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    idleTimeoutMillis: IDLE_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    application_name: "redrive",
    allowExitOnIdle: true,
  };
}

// Failure: classifies errors of PostgreSQL by their SQLSTATE, and decides which statements are
// repeated. An error without one is a lost connection: the outcome of its statement is unknown.

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const DISK_FULL = "53100";
const SERIALIZATION_FAILURE = "40001";
const DEADLOCK_DETECTED = "40P01";
/** The content of a statement is the cause: bad data, a constraint, or a limit of the server. */
const REFUSALS = ["22", "23", "54"];
/** Raised by `commit_batch`: the partition of the day does not exist. */
export const NO_ATTEMPT_DAY = "RD001";
/** A table, a schema or a function does not exist. */
export const MISSING = ["42P01", "3F000", "42883"] as const;
export const LOCK_TIMEOUT = "55P03";

/** The SQLSTATE of an error; empty without one. */
export function sqlState(error: unknown): string {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/u.test(code) ? code : "";
}

/** The error to reject with. */
export function storeError(error: unknown): unknown {
  const state = sqlState(error);
  const text = messageOf(error);
  if (state === DISK_FULL) {
    return new StoreFullError(`no space left for PostgreSQL: ${text}`, { cause: error });
  }
  if (REFUSALS.includes(state.slice(0, 2))) {
    return new StoreRefusedError(`PostgreSQL refuses an item: ${text}`, { cause: error });
  }
  if ((MISSING as readonly string[]).includes(state)) {
    // A started node has seen all of them.
    const cause = "a newer version of Redrive has upgraded the database, or its schema was removed";
    return new Error(`${cause}: restart this node with that version (${text})`, { cause: error });
  }
  return error;
}

/** Two transactions met, and the server rolled this one back. */
export function isConflict(error: unknown): boolean {
  return [SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(sqlState(error));
}

// Abandoned calls: those that took too long. Their connection is closed here, but the server may go on
// with them, for example while a commit waits for a synchronous standby that is away. Each keeps one of
// the server's connections, so a node makes no more calls while too many of them are left.

/** The server is asked this often which of them have ended. */
const CHECK_MS = 1000;
const CHECK_CALL_MS = 2000;

const LIVING = "SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1::int[])";

class AbandonedCalls {
  readonly #pool: Pool;
  readonly #clock: Clock;
  /** The numbers of the server's processes. Those of a pooler are unknown to the server. */
  #pids: ReadonlySet<number> = new Set();
  #checkedMs = Number.NEGATIVE_INFINITY;
  #checking: Promise<void> | undefined;

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
  }

  add(client: PoolClient): void {
    const { processID } = client as unknown as { readonly processID?: number | null };
    if (typeof processID === "number") this.#pids = new Set([...this.#pids, processID]);
  }

  /** As many as the pool has connections, as far as this node knows. */
  areMany(): boolean {
    return this.#pids.size >= (this.#pool.options.max ?? 1);
  }

  /** Asks the server which of them have ended. Rejects if there are still many. */
  async assertFew(): Promise<void> {
    if (this.#clock.monotonicMs() >= this.#checkedMs + CHECK_MS) {
      this.#checking ??= this.#check().finally(() => {
        this.#checking = undefined;
        this.#checkedMs = this.#clock.monotonicMs();
      });
      await this.#checking;
    }
    if (!this.areMany()) return;
    const text = `${this.#pids.size} calls hang on the PostgreSQL server`;
    throw new Error(`${text}: no more are made until they end`);
  }

  /** If the server does not respond, nothing is known. */
  async #check(): Promise<void> {
    let release: (isBroken: boolean) => void = () => {};
    try {
      const client = await this.#pool.connect();
      let isReleased = false;
      release = (isBroken) => {
        if (!isReleased) client.release(isBroken);
        isReleased = true;
      };
      const cancel = this.#clock.alarm(CHECK_CALL_MS, () => release(true), true);
      const { rows } = await client.query<{ pid: number }>(LIVING, [[...this.#pids]]);
      cancel();
      this.#pids = new Set(rows.map(({ pid }) => pid));
      release(false);
    } catch {
      release(true);
    }
  }
}
