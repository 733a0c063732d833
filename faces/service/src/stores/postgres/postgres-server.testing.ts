/**
 * PostgreSQL server for tests: one real server per test file, and an empty schema per store. Also
 * interrupts connections, as a network or a crash does.
 */
import { kill } from "node:process";
import type { Client } from "pg";
import pg from "pg";
import { afterAll } from "vitest";
import { type PostgresServer, startPostgres } from "../../../../../test/servers/postgres.ts";
import type { Store } from "../../model/store.ts";
import { type PostgresOptions, postgresStore } from "./postgres-store.ts";

export interface TestServer {
  /** The URL of a schema that no other test uses. */
  nextUrl(): Promise<string>;
  /** A store in a schema of its own. */
  nextStore(options?: PostgresOptions): Promise<Store>;
  /**
   * An empty store. Once it is closed, it is emptied and used again: to create a schema, and to compile
   * the functions in a new connection, takes longer than most tests do.
   */
  emptyStore(): Promise<Store>;
  /** Runs statements as the superuser. */
  run(sql: string, params?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
  /** Kills a server process, so that PostgreSQL recovers from its log, as after a crash. */
  crash(): Promise<void>;
}

/**
 * No test cuts the power of the machine, and a crash of the server alone loses nothing of this. Syncs
 * take most of the time of a small commit.
 */
const WITHOUT_SYNC = ["fsync=off", "full_page_writes=off"];

/** Starts a server that ends after the tests of this file. */
export function testServer(): TestServer {
  const started: Promise<PostgresServer> = startPostgres(WITHOUT_SYNC);
  // The tests report a failure.
  started.catch(() => {});
  let schemas = 0;
  let admin: Client | undefined;

  async function connected(): Promise<Client> {
    if (admin !== undefined) return admin;
    const client = new pg.Client((await started).url);
    client.on("error", () => {});
    client.on("end", () => {
      if (admin === client) admin = undefined;
    });
    await client.connect();
    admin = client;
    return client;
  }

  const run: TestServer["run"] = async (sql, params = []) =>
    (await (await connected()).query(sql, [...params])).rows;
  const opened: EmptyStore[] = [];
  const free: EmptyStore[] = [];
  async function emptyStore(): Promise<Store> {
    const used = free.pop() ?? (await openEmpty(await nextUrl()));
    if (!opened.includes(used)) opened.push(used);
    let isClosed = false;
    return {
      ...used.store,
      async close() {
        if (isClosed) return;
        isClosed = true;
        await run(emptySchema(used.schema));
        free.push(used);
      },
    };
  }

  const nextUrl = async () => `${(await started).url}?schema=test_${++schemas}&durability=relaxed`;
  afterAll(async () => {
    for (const { store } of opened) await store.close();
    await admin?.end();
    await (await started).stop();
  });
  return {
    nextUrl,
    nextStore: async (options) => postgresStore(await nextUrl(), options),
    emptyStore,
    run,
    async crash() {
      const client = new pg.Client((await started).url);
      client.on("error", () => {});
      await client.connect();
      const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
      kill(rows[0].pid, "SIGKILL");
    },
  };
}

interface EmptyStore {
  readonly store: Store;
  readonly schema: string;
}

async function openEmpty(url: string): Promise<EmptyStore> {
  const schema = new URL(url).searchParams.get("schema") ?? "";
  return { store: await postgresStore(url), schema };
}

/** Removes what stores wrote: rows, numbers of sequences, and the tables of days. */
const emptySchema = (schema: string) => `DO $$
  DECLARE
    name text;
  BEGIN
    FOR name IN SELECT i.inhrelid::regclass FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE c.relnamespace = '${schema}'::regnamespace AND c.relkind = 'r'
    LOOP
      EXECUTE 'DROP TABLE ' || name;
    END LOOP;
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('%I.%I', schemaname, tablename), ', ')
        || ' RESTART IDENTITY'
      FROM pg_tables WHERE schemaname = '${schema}' AND tablename <> 'schema_version');
    FOR name IN SELECT c.oid::regclass FROM pg_class c
      WHERE c.relnamespace = '${schema}'::regnamespace AND c.relkind = 'S'
    LOOP
      EXECUTE format('ALTER SEQUENCE %s RESTART', name);
    END LOOP;
  END $$`;
