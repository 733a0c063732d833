/**
 * Migrations: the numbered changes of the PostgreSQL schema. They go forward only, each in one
 * transaction with its number. A released migration never changes. Nodes that start at the same time
 * wait for each other.
 */
import { RedriveError } from "@redrive/core";
import { isConflict, MISSING, sqlState } from "../connection/failure.ts";
import type { Run, Script, Sql } from "../connection/sql.ts";
import { FIRST_TABLES } from "./first-tables.ts";
import { FUNCTIONS } from "./functions.ts";
import { MOVE_TASKS } from "./task-tables.ts";

/**
 * Each is SQL text. The number of a migration is its position, counted from 1. Migrations 2 and 4
 * changed only functions, and the newest migration creates all of them. If a function changes, add one.
 */
const MIGRATIONS: readonly string[] = [FIRST_TABLES, "", MOVE_TASKS, FUNCTIONS];

/** The schema that this version writes. A database with a higher number is rejected. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** The oldest server that has everything that the schema uses. */
const MIN_SERVER = 130_000;

/** A migration that met other transactions is repeated this often. */
const MAX_CONFLICTS = 10;

/** Runs the migrations that the database lacks. Throws if it was written by a newer version. */
export async function migrate(sql: Sql): Promise<void> {
  await checkServer(sql);
  if ((await storedVersion(sql.run)) === SCHEMA_VERSION) return;
  for (let conflicts = 0, isDone = false; !isDone; ) {
    try {
      isDone = await sql.transaction((run, script) => step(run, script, sql.schema));
    } catch (error) {
      // Nodes of an earlier version may commit: each of the two can wait for tables of the other.
      if (!isConflict(error) || ++conflicts > MAX_CONFLICTS) throw error;
    }
  }
}

/** The number of the schema in the database; 0: there is none. */
export async function storedVersion(run: Run): Promise<number> {
  try {
    const [row] = await run("SELECT version FROM redrive.schema_version");
    const version = Number(row?.[0] ?? 0);
    if (version > SCHEMA_VERSION) throw newerSchema(version);
    return version;
  } catch (error) {
    if ((MISSING as readonly string[]).includes(sqlState(error))) return 0;
    throw error;
  }
}

/** Runs one migration. True: it was the last one. */
async function step(run: Run, script: Script, schema: string): Promise<boolean> {
  await run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [schema]);
  const [found] = await run("SELECT to_regclass($1)::text", [`${schema}.schema_version`]);
  if (found?.[0] === null) {
    await script(`CREATE SCHEMA IF NOT EXISTS ${schema};
      CREATE TABLE ${schema}.schema_version (version int NOT NULL);
      INSERT INTO ${schema}.schema_version VALUES (0)`);
  }
  const version = await storedVersion(run);
  const migration = MIGRATIONS[version];
  if (migration === undefined) return true;
  await script(`SET LOCAL search_path TO ${schema}, pg_temp; ${migration}`);
  await run("UPDATE redrive.schema_version SET version = $1", [version + 1]);
  return version + 1 === SCHEMA_VERSION;
}

async function checkServer({ run }: Sql): Promise<void> {
  const [row] = await run("SELECT current_setting('server_version_num')::int");
  const version = Number(row?.[0]);
  if (version >= MIN_SERVER) return;
  const text = `PostgreSQL ${Math.floor(version / 10_000)} is too old: Redrive needs 13 or later`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

function newerSchema(version: number): Error {
  const text = `the database was written by a newer Redrive (schema ${version}, this version knows ${SCHEMA_VERSION}): upgrade this one`;
  return new RedriveError("INVALID_ARGUMENT", text);
}
