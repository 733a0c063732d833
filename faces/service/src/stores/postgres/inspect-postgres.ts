/**
 * Inspect PostgreSQL: the settings of a server that decide whether it keeps what it acknowledges, and what
 * `redrive doctor` reports about it and its schema. Changes nothing.
 */
import { RedriveError } from "@redrive/core";
import type { Upkeep } from "../../model/store.ts";
import { type Address, createSql, openPool, readAddress, type Sql } from "./connection/sql.ts";
import { readUpkeep } from "./postgres-query.ts";
import { SCHEMA_VERSION, storedVersion } from "./schema/migrations.ts";

export interface PostgresReport extends Upkeep {
  /** Such as "18.4". */
  readonly serverVersion: string;
  /** Off would lose acknowledged tasks in a crash, so each commit turns it on. */
  readonly synchronousCommit: string;
  /** What must change before the server can hold a store. Each names the setting and the repair. */
  readonly problems: readonly string[];
  /** 0: the first start creates the schema. */
  readonly schemaVersion: number;
  /** The version that this program writes. */
  readonly ownVersion: number;
}

const SERVER = "SELECT current_setting('server_version'), current_setting('synchronous_commit')";

/**
 * Settings of the server, the database or the role that would lose or damage acknowledged tasks, or let a
 * commit decide on rows that another one has changed since. `synchronous_commit` is not among them: every
 * commit turns it on.
 */
const SETTINGS = `SELECT current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only')`;

/** Throws `INVALID_ARGUMENT` for the first setting that the store cannot work with. */
export async function checkSettings(sql: Sql, address: Address): Promise<void> {
  const [problem] = await problemsOf(sql, address);
  if (problem !== undefined) throw new RedriveError("INVALID_ARGUMENT", problem);
}

async function problemsOf({ run }: Sql, { durability }: Address): Promise<readonly string[]> {
  const [[fsync, pages, isolation, readOnly] = []] = await run(SETTINGS);
  const isStrict = durability === "strict";
  const orRelaxed = ", or accept it with durability=relaxed in the URL";
  const found = [
    isStrict &&
      fsync === "off" &&
      `fsync is off, so a crash of the machine loses tasks and damages the database: turn it on${orRelaxed}`,
    isStrict &&
      pages === "off" &&
      `full_page_writes is off, so a crash of the machine may damage tables: turn it on${orRelaxed}`,
    isolation !== "read committed" &&
      `default_transaction_isolation is ${isolation}, so a claim could miss a pause that was acknowledged: ALTER ROLE ... SET default_transaction_isolation = 'read committed'`,
    readOnly === "on" &&
      "default_transaction_read_only is on: ALTER ROLE ... SET default_transaction_read_only = off",
  ];
  return found
    .filter((problem) => problem !== false)
    .map((text) => `the PostgreSQL server: ${text}`);
}

/** Rejects if the server does not respond, or if a newer version has written the schema. */
export async function inspectPostgres(url: string): Promise<PostgresReport> {
  const address = readAddress(url);
  const pool = await openPool(address.url, 1);
  try {
    return await reportOf(createSql(pool, address.schema, SCHEMA_VERSION), address);
  } finally {
    await pool.end();
  }
}

async function reportOf(sql: Sql, address: Address): Promise<PostgresReport> {
  const { run } = sql;
  const [server = []] = await run(SERVER);
  return {
    serverVersion: String(server[0]),
    synchronousCommit: String(server[1]),
    problems: await problemsOf(sql, address),
    schemaVersion: await storedVersion(run),
    ownVersion: SCHEMA_VERSION,
    ...(await readUpkeep(sql)),
  };
}
