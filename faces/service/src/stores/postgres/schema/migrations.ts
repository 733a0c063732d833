/**
 * Migrations: the numbered changes of the PostgreSQL tables, and the schemas of functions. They go forward
 * only, in one transaction with their number. A released migration never changes. Nodes that start at the
 * same time wait for each other.
 *
 * A fleet is upgraded node by node: a migration leaves tables in which the functions of the version before
 * still work, and keeps that version's functions, so that its nodes go on, and may start again. Functions
 * of earlier versions are removed.
 */
import { RedriveError } from "@redrive/core";
import {
  functionsSchema,
  isConflict,
  MISSING,
  type Run,
  type Script,
  type Sql,
  sqlState,
} from "../connection/sql.ts";
import {
  CLAIM_FUNCTIONS,
  COMMIT_BATCH_FUNCTION,
  COMMIT_FUNCTIONS,
  COMMIT_ROW,
} from "./commit-functions.ts";
import { CREATE_FUNCTIONS } from "./create-functions.ts";
import { NODE_FUNCTIONS } from "./node-functions.ts";
import { ENQUEUE_TASK, OUTBOX_FUNCTIONS } from "./outbox-functions.ts";
import { REMOVAL_FUNCTIONS } from "./removal-functions.ts";
import { SETTLE_FUNCTIONS } from "./settle-functions.ts";
import { TABLES } from "./tables.ts";

/** Each is SQL text. The number of a migration is its position, counted from 1. */
export const MIGRATIONS: readonly string[] = [`${TABLES} ${ENQUEUE_TASK}`];

/** The schema that this version writes. If a function changes, add a migration, even an empty one. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** The oldest server that has everything that the schema uses. */
const MIN_SERVER = 130_000;

/** A migration that met other transactions is repeated this often. */
const MAX_CONFLICTS = 10;

/** The numbers in the database; 0: there is no schema. */
interface StoredVersions {
  readonly version: number;
  /** The oldest version whose functions are there. */
  readonly oldest: number;
}

const NO_SCHEMA: StoredVersions = { version: 0, oldest: 0 };

/**
 * Runs the migrations that the database lacks. Throws if it was written by a version that has removed the
 * functions of this one. `migrations`: only tests have others.
 */
export async function migrate(sql: Sql, migrations: readonly string[] = MIGRATIONS): Promise<void> {
  await checkServer(sql);
  const own = migrations.length;
  if (isUsable(await storedVersions(sql.run), own)) return;
  for (let conflicts = 0, isDone = false; !isDone; ) {
    try {
      await sql.transaction((run, script) => migrateIn(sql, run, script, migrations));
      isDone = true;
    } catch (error) {
      // Nodes of the version before may commit: each of the two can wait for tables of the other.
      if (!isConflict(error) || ++conflicts > MAX_CONFLICTS) throw error;
    }
  }
}

/** The number of the schema in the database; 0: there is none. Throws if this version cannot use it. */
export async function storedVersion(run: Run): Promise<number> {
  const stored = await storedVersions(run);
  isUsable(stored, SCHEMA_VERSION);
  return stored.version;
}

async function storedVersions(run: Run): Promise<StoredVersions> {
  try {
    const [row] = await run("SELECT version, oldest FROM redrive.schema_version");
    return row === undefined ? NO_SCHEMA : { version: Number(row[0]), oldest: Number(row[1]) };
  } catch (error) {
    if (isMissing(error)) return NO_SCHEMA;
    throw error;
  }
}

/** The error of a statement, or what `storeError` made of it. */
function isMissing(error: unknown): boolean {
  const state = sqlState(error) || sqlState((error as { readonly cause?: unknown }).cause);
  return (MISSING as readonly string[]).includes(state);
}

/** False: migrations are missing. */
function isUsable({ version, oldest }: StoredVersions, own: number): boolean {
  if (own < oldest) throw newerSchema(version, own);
  return version >= own;
}

async function migrateIn(
  { schema, functions }: Sql,
  run: Run,
  script: Script,
  migrations: readonly string[],
): Promise<void> {
  await run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [schema]);
  const [found] = await run("SELECT to_regclass($1)::text", [`${schema}.schema_version`]);
  if (found?.[0] === null) {
    await script(`CREATE SCHEMA IF NOT EXISTS ${schema};
      CREATE TABLE ${schema}.schema_version (version int NOT NULL, oldest int NOT NULL);
      INSERT INTO ${schema}.schema_version VALUES (0, 0)`);
  }
  const own = migrations.length;
  const stored = await storedVersions(run);
  if (isUsable(stored, own)) return;
  await script(
    `SET LOCAL search_path TO ${schema}, pg_temp; ${migrations.slice(stored.version).join("; ")}`,
  );
  await script(`CREATE SCHEMA ${functions}; SET LOCAL search_path TO ${functions}, ${schema}, pg_temp;
    ${functionsText(schema, functions)}`);
  const oldest = stored.version === own - 1 && stored.version > 0 ? stored.version : own;
  for (let version = Math.max(1, stored.oldest); version < oldest; version++) {
    await script(`DROP SCHEMA IF EXISTS ${functionsSchema(schema, version)} CASCADE`);
  }
  await run("UPDATE redrive.schema_version SET version = $1, oldest = $2", [own, oldest]);
}

/** A function finds the tables first, so that `current_schema()` is the same in all versions. */
function functionsText(schema: string, functions: string): string {
  const path = `SET search_path TO ${schema}, ${functions}, pg_temp`;
  return FUNCTIONS.replaceAll("SET search_path FROM CURRENT", path);
}

async function checkServer({ run }: Sql): Promise<void> {
  const [row] = await run("SELECT current_setting('server_version_num')::int");
  const version = Number(row?.[0]);
  if (version >= MIN_SERVER) return;
  const text = `PostgreSQL ${Math.floor(version / 10_000)} is too old: Redrive needs 13 or later`;
  throw new RedriveError("INVALID_ARGUMENT", text);
}

function newerSchema(version: number, own: number): Error {
  const text = `the database was written by a newer Redrive (schema ${version}, this version knows ${own}): upgrade this one`;
  return new RedriveError("INVALID_ARGUMENT", text);
}

// Functions: those of this version of the schema. They lie in a schema of their own, so that nodes of
// the version before keep theirs while a fleet is upgraded. `enqueue_task` lies beside the tables, because
// users grant it to roles: it calls the function of the version of its caller.

const FUNCTIONS = [
  COMMIT_ROW,
  CREATE_FUNCTIONS,
  SETTLE_FUNCTIONS,
  COMMIT_FUNCTIONS,
  CLAIM_FUNCTIONS,
  COMMIT_BATCH_FUNCTION,
  NODE_FUNCTIONS,
  REMOVAL_FUNCTIONS,
  OUTBOX_FUNCTIONS,
].join("\n");
