/**
 * Inspect PostgreSQL: what `redrive doctor` reports about a server and its schema. Changes nothing.
 */
import { readAddress } from "./connection/address.ts";
import { openPool } from "./connection/pool.ts";
import { createSql, type Run } from "./connection/sql.ts";
import { SCHEMA_VERSION, storedVersion } from "./schema/migrations.ts";

export interface PostgresReport {
  /** Such as "18.4". */
  readonly serverVersion: string;
  /** Off would lose acknowledged tasks in a crash, so each commit turns it on. */
  readonly synchronousCommit: string;
  /** Off would damage the database in a crash. */
  readonly fsync: boolean;
  /** 0: the first start creates the schema. */
  readonly schemaVersion: number;
  /** The version that this program writes. */
  readonly ownVersion: number;
  /** The age of the oldest transaction of the server; while it runs, no dead rows are removed. */
  readonly oldestTransactionMs: number;
  readonly deadRows: number;
  readonly liveRows: number;
}

const SERVER = `SELECT current_setting('server_version'), current_setting('synchronous_commit'),
  current_setting('fsync'), coalesce((SELECT floor(extract(epoch FROM
    clock_timestamp() - min(xact_start)) * 1000)::bigint
    FROM pg_stat_activity WHERE pid <> pg_backend_pid()), 0)`;

const ROWS = `SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint
  FROM pg_stat_user_tables WHERE schemaname = $1`;

/** Rejects if the server does not respond, or if a newer version has written the schema. */
export async function inspectPostgres(url: string): Promise<PostgresReport> {
  const address = readAddress(url);
  const pool = await openPool(address.url, { maxConnections: 1 });
  try {
    return await reportOf(createSql(pool, address.schema).run, address.schema);
  } finally {
    await pool.end();
  }
}

async function reportOf(run: Run, schema: string): Promise<PostgresReport> {
  const [server = []] = await run(SERVER);
  const [rows = []] = await run(ROWS, [schema]);
  return {
    serverVersion: String(server[0]),
    synchronousCommit: String(server[1]),
    fsync: server[2] === "on",
    schemaVersion: await storedVersion(run),
    ownVersion: SCHEMA_VERSION,
    oldestTransactionMs: Number(server[3]),
    deadRows: Number(rows[0]),
    liveRows: Number(rows[1]),
  };
}
