/**
 * Inspect PostgreSQL: what `redrive doctor` reports about a server and its schema. Changes nothing.
 */
import type { Upkeep } from "../../model/store.ts";
import { readAddress } from "./connection/address.ts";
import { openPool } from "./connection/pool.ts";
import { createSql, type Sql } from "./connection/sql.ts";
import { readUpkeep } from "./read/upkeep.ts";
import { SCHEMA_VERSION, storedVersion } from "./schema/migrations.ts";

export interface PostgresReport extends Upkeep {
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
}

const SERVER = `SELECT current_setting('server_version'), current_setting('synchronous_commit'),
  current_setting('fsync')`;

/** Rejects if the server does not respond, or if a newer version has written the schema. */
export async function inspectPostgres(url: string): Promise<PostgresReport> {
  const address = readAddress(url);
  const pool = await openPool(address.url, { maxConnections: 1 });
  try {
    return await reportOf(createSql(pool, address.schema));
  } finally {
    await pool.end();
  }
}

async function reportOf(sql: Sql): Promise<PostgresReport> {
  const { run } = sql;
  const [server = []] = await run(SERVER);
  return {
    serverVersion: String(server[0]),
    synchronousCommit: String(server[1]),
    fsync: server[2] === "on",
    schemaVersion: await storedVersion(run),
    ownVersion: SCHEMA_VERSION,
    ...(await readUpkeep(sql)),
  };
}
