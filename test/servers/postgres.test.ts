/** PostgreSQL for tests is a real server with production durability. */
// needs: postgres
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "./postgres.ts";

let server: PostgresServer;
let client: pg.Client;

beforeAll(async () => {
  server = await startPostgres();
  client = new pg.Client({ connectionString: server.url });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await server.stop();
});

test("stores and returns a row", async () => {
  await client.query("CREATE TABLE task (id text PRIMARY KEY, body bytea)");
  await client.query("INSERT INTO task VALUES ($1, $2)", ["a", Buffer.from([0, 255])]);
  const { rows } = await client.query("SELECT id, body FROM task");
  expect(rows).toEqual([{ id: "a", body: Buffer.from([0, 255]) }]);
});

test("syncs to disk before it acknowledges a commit", async () => {
  for (const setting of ["fsync", "synchronous_commit", "full_page_writes"]) {
    const { rows } = await client.query(`SHOW ${setting}`);
    expect(rows[0][setting], setting).toBe("on");
  }
});
