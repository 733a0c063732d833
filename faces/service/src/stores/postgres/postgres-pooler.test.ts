/** Runs a PostgreSQL store through a pooler in transaction mode, with two connections for all. */
// needs: postgres, pgbouncer
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startPgBouncer } from "../../../../../test/servers/pgbouncer.ts";
import { type PostgresServer, startPostgres } from "../../../../../test/servers/postgres.ts";
import type { LaneDue, WakeUp } from "../../model/lane-due.ts";
import { batch, claimFirst, create, DESTINATION, dueLanes, T0, TENANT } from "../store.testing.ts";
import { postgresStore } from "./postgres-store.ts";

let postgres: PostgresServer;
let pooler: PostgresServer;
let schemas = 0;

beforeAll(async () => {
  postgres = await startPostgres();
  pooler = await startPgBouncer(postgres.url);
});
afterAll(async () => {
  await pooler.stop();
  await postgres.stop();
});

const nextName = () => `?schema=pooled_${++schemas}`;

describe("a PostgreSQL store behind a pooler", () => {
  it("commits and reads while many calls share two connections", async () => {
    const store = await postgresStore(`${pooler.url}${nextName()}`, { listen: false });
    const creates = Array.from({ length: 40 }, () => create());
    await Promise.all(creates.map((one) => store.commit(batch({ creates: [one] }))));
    const reads = creates.map(({ task }) => store.query.get(TENANT, task.taskId));
    expect((await Promise.all(reads)).every((task) => task !== null)).toBe(true);
    const lists = Array.from({ length: 20 }, () => store.query.list(TENANT, {}, { limit: 9 }));
    expect((await Promise.all(lists)).every(({ tasks }) => tasks.length === 9)).toBe(true);
    expect(await claimFirst(store, 40)).toHaveLength(40);
    await store.close();
  });

  it("finds due lanes without LISTEN", async () => {
    const store = await postgresStore(`${pooler.url}${nextName()}`, { listen: false });
    await store.commit(batch({ creates: [create()] }));
    expect(await dueLanes(store)).toMatchObject([{ destination: DESTINATION, dueAt: T0 }]);
    await store.close();
  });

  it("is woken up on a connection of its own that does not use the pooler", async () => {
    const store = await postgresStore(`${pooler.url}${nextName()}`, { listen: postgres.url });
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([1]);
    const lane = { tenantId: TENANT, destination: "d", lane: "first", partition: 1, dueAt: T0 };
    const isTold = async () => {
      await store.commit(batch({ wakeUps: [lane as LaneDue] }));
      return heard.length > 0;
    };
    await expect.poll(isTold).toBe(true);
    expect(heard[0]).toEqual([lane]);
    await store.close();
  });

  it("stores a task in a transaction of a caller behind the same pooler", async () => {
    const store = await postgresStore(`${pooler.url}${nextName()}`, { listen: postgres.url });
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([0]);
    const tx = new pg.Client(pooler.url);
    await tx.connect();
    await tx.query("BEGIN");
    expect(await store.createIn?.(tx, create())).toMatchObject({ kind: "created" });
    expect(await claimFirst(store, 1)).toEqual([]);
    await tx.query("COMMIT");
    await expect.poll(() => heard).toMatchObject([[{ destination: DESTINATION }]]);
    expect(await claimFirst(store, 1)).toHaveLength(1);
    // Without BEGIN, each statement is a transaction of its own.
    const code = { code: "INVALID_ARGUMENT" };
    await expect(store.createIn?.(tx, create())).rejects.toMatchObject(code);
    await tx.end();
    await store.close();
  });
});
