/**
 * Tests that a fleet is upgraded node by node, with a synthetic next version: nodes of both versions work
 * on the same tables at the same time, in both directions, and nothing is lost or waits.
 */
// needs: postgres
import pg from "pg";
import { describe, expect, it } from "vitest";
import type { Store } from "../../model/store.ts";
import { anywhere, lostOf, startLoad } from "../load.testing.ts";
import {
  batch,
  claimOf,
  create,
  DESTINATION,
  partitionsOf,
  settle,
  TENANT,
} from "../store.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "./schema/migrations.ts";

const server = testServer();

/** Its tables have a column more. */
const NEXT = [...MIGRATIONS, "ALTER TABLE waiting_tasks ADD COLUMN color text DEFAULT 'red'"];
const AFTER_NEXT = [...NEXT, "CREATE TABLE colors (name text)"];

async function schemaUrl(): Promise<{ url: string; schema: string }> {
  const url = await server.nextUrl();
  return { url, schema: new URL(url).searchParams.get("schema") ?? "" };
}

/** Claims and settles until nothing waits. Returns how many it has settled. */
async function drain(store: Store, nodeId: string): Promise<number> {
  let settled = 0;
  for (;;) {
    const partitions = partitionsOf(store).slice(0, 16);
    const all = [partitions, ...[16, 32, 48].map((at) => partitionsOf(store).slice(at, at + 16))];
    let found = 0;
    for (const some of all) {
      const claims = [{ ...claimOf("first"), partitions: some, limit: 100 }];
      const result = await store.commit(batch({ nodeId, claims }));
      const tasks = result.claims[0]?.tasks ?? [];
      found += tasks.length;
      const settles = tasks.map((task) =>
        settle(task, { status: "SUCCEEDED", reason: "succeeded" }),
      );
      const ended = await store.commit(batch({ nodeId, settles }));
      settled += ended.settles.filter((status) => status === "SUCCEEDED").length;
    }
    if (found === 0) return settled;
  }
}

describe("a fleet that is upgraded node by node", () => {
  it("loses and stalls nothing while nodes of both versions work, in both directions", async () => {
    const { url } = await schemaUrl();
    const first = await postgresStore(url);
    const second = await postgresStore(url);
    const loads = [startLoad(first), startLoad(second)];
    const fill = (count: number) =>
      expect.poll(() => least(loads), { timeout: 20_000 }).toBeGreaterThan(count);
    await fill(20);
    const upgraded = await postgresStore(url, { migrations: NEXT });
    loads.push(startLoad(upgraded));
    const before = least(loads.slice(0, 2));
    await fill(before + 20);
    // A node of the version before starts again, as after a crash or a rollback.
    const again = await postgresStore(url);
    loads.push(startLoad(again));
    await fill(before + 40);
    await Promise.all(loads.map((load) => load.stop()));
    const acknowledged = loads.flatMap((load) => load.acknowledged);
    expect(await lostOf(again, acknowledged)).toEqual([]);
    const settled = [await drain(again, "older"), await drain(upgraded, "newer")];
    expect(settled[0]! + settled[1]!).toBe(acknowledged.length);
    // What either version stores, the other one claims.
    await upgraded.commit(batch({ creates: [anywhere()] }));
    expect(await drain(again, "older")).toBe(1);
    await again.commit(batch({ creates: [anywhere()] }));
    expect(await drain(upgraded, "newer")).toBe(1);
    for (const store of [first, second, upgraded, again]) await store.close();
  });

  it("stores tasks in a caller's transaction by both versions, and keeps the right to do so", async () => {
    const { url, schema } = await schemaUrl();
    const older = await postgresStore(url);
    const role = `shop_${schema}`;
    await server.run(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${schema} TO ${role};
      GRANT EXECUTE ON FUNCTION ${schema}.enqueue_task TO ${role}`);
    const newer = await postgresStore(url, { migrations: NEXT });
    const tx = new pg.Client(url.split("?")[0]);
    await tx.connect();
    for (const store of [older, newer]) {
      await tx.query(`BEGIN; SET LOCAL ROLE ${role}`);
      expect(await store.createIn?.(tx, create())).toMatchObject({ kind: "created" });
      await tx.query("COMMIT");
    }
    await tx.end();
    expect(await older.query.count(TENANT)).toMatchObject({ PENDING: 2 });
    expect(
      (await newer.query.list(TENANT, { destination: DESTINATION }, { limit: 9 })).tasks,
    ).toHaveLength(2);
    for (const store of [older, newer]) await store.close();
  });

  it("refuses what is two versions old: its start, and the commits of a node that still runs", async () => {
    const { url, schema } = await schemaUrl();
    const oldest = await postgresStore(url);
    for (const migrations of [NEXT, AFTER_NEXT]) {
      await (await postgresStore(url, { migrations })).close();
    }
    expect(await server.run(`SELECT version, oldest FROM ${schema}.schema_version`)).toEqual([
      { version: SCHEMA_VERSION + 2, oldest: SCHEMA_VERSION + 1 },
    ]);
    await expect(oldest.commit(batch({ creates: [create()] }))).rejects.toThrow(
      /newer version of Redrive has upgraded/u,
    );
    await oldest.close();
    await expect(postgresStore(url)).rejects.toThrow(/newer Redrive \(schema 3/u);
    await (await postgresStore(url, { migrations: NEXT })).close();
  });

  it("leaves the database as it was if a step fails, and the next start continues", async () => {
    const { url, schema } = await schemaUrl();
    const store = await postgresStore(url);
    const load = startLoad(store);
    const broken = [...MIGRATIONS, "CREATE TABLE colors (name text); SELECT 1 / 0"];
    await expect(postgresStore(url, { migrations: broken })).rejects.toThrow(/division by zero/u);
    await load.stop();
    expect(await lostOf(store, load.acknowledged)).toEqual([]);
    expect(
      await server.run(`SELECT version, oldest, to_regclass('${schema}.colors') AS colors
      FROM ${schema}.schema_version`),
    ).toEqual([{ version: 1, oldest: 1, colors: null }]);
    await (await postgresStore(url, { migrations: NEXT })).close();
    await store.close();
  });
});

const least = (loads: readonly { acknowledged: readonly string[] }[]) =>
  Math.min(...loads.map(({ acknowledged }) => acknowledged.length));
