/** Tests a PostgreSQL store on a server with old transactions, conflicts, and without space. */
// needs: postgres
import pg from "pg";
import { describe, expect, it } from "vitest";
import type { Store } from "../../model/store.ts";
import { batch, claimFirst, create, T0, TENANT } from "../store.testing.ts";
import { churnDay, quantile } from "./churn.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";

const ROUNDS = Number(process.env["REDRIVE_SOAK_ROUNDS"] ?? 8);
/** What section 3 of the reliability contract allows. */
const MAX_RATIO = 5;
const LONG_MS = 3_600_000;

const server = testServer();

async function openStore(): Promise<{ store: Store; url: string; schema: string }> {
  const url = await server.nextUrl();
  const schema = new URL(url).searchParams.get("schema") ?? "";
  return { store: await postgresStore(url), url, schema };
}

/** Fails the next claims of a schema with these states, one each. A sequence does not roll back. */
async function failClaims(schema: string, states: readonly string[]): Promise<void> {
  await server.run(`CREATE SEQUENCE ${schema}.failures`);
  const raises = states.map(
    (state, n) =>
      `IF number = ${n + 1} THEN RAISE 'made by a test' USING ERRCODE = '${state}'; END IF;`,
  );
  await server.run(`CREATE FUNCTION ${schema}.fail() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE number bigint := nextval('${schema}.failures');
    BEGIN ${raises.join("\n")} RETURN NULL; END $$`);
  await server.run(`CREATE TRIGGER fail BEFORE DELETE ON ${schema}.waiting_tasks
    FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.fail()`);
}

describe("a PostgreSQL store", () => {
  it("claims at most five times slower during a long transaction", {
    timeout: LONG_MS,
  }, async () => {
    const { store, url } = await openStore();
    await churnDay(store, 0, ROUNDS);
    const clean = await churnDay(store, 1, ROUNDS);
    const old = new pg.Client(url.split("?")[0]);
    old.on("error", () => {});
    await old.connect();
    // It sees the database as it is now, so no row that dies from now on can be removed.
    await old.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await old.query("SELECT txid_current(), count(*) FROM pg_class");
    const during: number[] = [];
    for (let day = 2; day < 7; day++) {
      during.push(quantile((await churnDay(store, day, ROUNDS)).claimMs, 0.99));
    }
    // The server counts dead rows a moment after they have died.
    await expect
      .poll(async () => (await store.upkeep?.())?.deadRows, { timeout: 30_000 })
      .toBeGreaterThan(ROUNDS * 100);
    const upkeep = await store.upkeep?.();
    await old.end();
    const before = quantile(clean.claimMs, 0.99);
    // The best of the last days: what else runs on the machine does not slow down all of them.
    const after = Math.min(...during.slice(-3));
    console.log(
      `claim p99: ${before.toFixed(1)} ms before, ${after.toFixed(1)} ms during; ${JSON.stringify(upkeep)}`,
    );
    expect(upkeep?.oldestTransactionMs).toBeGreaterThan(0);
    expect(after / before).toBeLessThan(MAX_RATIO);
    await store.close();
  });

  it("does not read what it has removed again, although a long transaction keeps it", async () => {
    const { store, url, schema } = await openStore();
    for (let made = 0; made < 1000; made += 100) {
      const creates = Array.from({ length: 100 }, () => create());
      await store.commit(batch({ creates }));
      await store.commit(batch({ now: T0 + made, cancels: creates.map(({ task }) => task) }));
    }
    const old = new pg.Client(url.split("?")[0]);
    old.on("error", () => {});
    await old.connect();
    await old.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await old.query("SELECT txid_current(), count(*) FROM pg_class");
    const range = { now: T0 + 1000, endedBefore: T0 + 1000, deadBefore: 0, limit: 50 };
    let calls = 1;
    await store.sweep(range);
    while ((await store.sweep({ ...range, isContinued: true })) === 50) calls++;
    await old.end();
    expect(calls).toBe(20);
    expect(await store.query.count(TENANT)).toEqual({});
    const read = async () => {
      const [row] = await server.run(`SELECT idx_tup_read::int AS entries FROM pg_stat_user_indexes
        WHERE schemaname = '${schema}' AND indexrelname = 'ended_tasks_by_end'`);
      return Number(row?.["entries"]);
    };
    // The server counts a moment later. Without a position, twenty calls would read 10,500.
    await expect.poll(read, { timeout: 30_000 }).toBeGreaterThanOrEqual(1000);
    expect(await read()).toBeLessThan(4000);
    await store.close();
  });

  it("repeats a commit that met a deadlock or a serialization failure", async () => {
    const { store, schema } = await openStore();
    await store.commit(batch({ creates: [create()] }));
    await failClaims(schema, ["40P01", "40001", "40P01"]);
    expect(await claimFirst(store)).toHaveLength(1);
    await store.close();
  });

  it("reports a conflict that does not end, and then continues", async () => {
    const { store, schema } = await openStore();
    await store.commit(batch({ creates: [create()] }));
    await failClaims(schema, ["40P01", "40P01", "40P01", "40P01"]);
    await expect(claimFirst(store)).rejects.toMatchObject({ code: "40P01" });
    expect(await claimFirst(store)).toHaveLength(1);
    await store.close();
  });

  it("says that nothing was stored while the disk is full, and then continues", async () => {
    const { store, schema } = await openStore();
    await store.commit(batch({ creates: [create()] }));
    await failClaims(schema, ["53100"]);
    await expect(claimFirst(store)).rejects.toMatchObject({ name: "StoreFullError" });
    expect(await store.query.count(TENANT)).toMatchObject({ PENDING: 1 });
    expect(await claimFirst(store)).toHaveLength(1);
    await store.close();
  });

  it("reports the oldest transaction of the server", async () => {
    const { store } = await openStore();
    await server.run("BEGIN");
    await server.run("SELECT 1");
    const ageMs = async () => (await store.upkeep?.())?.oldestTransactionMs;
    await expect.poll(ageMs).toBeGreaterThan(50);
    await server.run("COMMIT");
    await expect.poll(ageMs).toBeLessThan(50);
    await store.close();
  });
});
