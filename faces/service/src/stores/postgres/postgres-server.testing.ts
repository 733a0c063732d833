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
  /** Runs statements as the superuser. */
  run(sql: string, params?: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
  /** Kills a server process, so that PostgreSQL recovers from its log, as after a crash. */
  crash(): Promise<void>;
}

/** Starts a server that ends after the tests of this file. */
export function testServer(): TestServer {
  const started: Promise<PostgresServer> = startPostgres();
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

  const nextUrl = async () => `${(await started).url}?schema=test_${++schemas}`;
  afterAll(async () => {
    await admin?.end();
    await (await started).stop();
  });
  return {
    nextUrl,
    nextStore: async (options) => postgresStore(await nextUrl(), options),
    run: async (sql, params = []) => (await (await connected()).query(sql, [...params])).rows,
    async crash() {
      const client = new pg.Client((await started).url);
      client.on("error", () => {});
      await client.connect();
      const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
      kill(rows[0].pid, "SIGKILL");
    },
  };
}
