/** The idempotency store on a real PostgreSQL: conformance, transactions, and meetings of claims. */
// needs: postgres
import { Pool, type PoolConfig } from "pg";
import { postgresStore } from "redrive/idempotency";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { idempotencyStoreConformance } from "../../../faces/library/src/idempotency/conformance.testing.ts";
import { type PostgresServer, startPostgres } from "../../servers/postgres.ts";

let server: PostgresServer;
let pool: Pool;
beforeAll(async () => {
  server = await startPostgres();
  pool = openPool();
});

function openPool(more: PoolConfig = {}): Pool {
  const opened = new Pool({ connectionString: server.url, max: 20, ...more });
  // `end` does not wait until the server has closed the connections.
  opened.on("error", () => undefined);
  return opened;
}

afterAll(async () => {
  await pool.end();
  await server.stop();
});

idempotencyStoreConformance(
  "postgres",
  async (clock) => {
    const store = postgresStore(pool, { clock });
    await store.migrate();
    return { store };
  },
  30,
);

const claim = { fingerprint: "f", owner: "a", leaseMs: 10_000, retentionMs: 60_000 };
const settlement = { result: Uint8Array.of(7), retentionMs: 60_000 };

describe("on the clock of the server", () => {
  const store = () => postgresStore(pool, { table: "own_keys" });
  beforeAll(async () => {
    await store().migrate();
    await pool.query("CREATE TABLE effects (name text)");
  });
  const effects = async () => (await pool.query("SELECT name FROM effects")).rows.length;

  test("twenty programs can migrate at once", async () => {
    const stores = Array.from({ length: 20 }, () => postgresStore(pool, { table: "raced.keys" }));
    await pool.query("CREATE SCHEMA raced");
    await Promise.all(stores.map((one) => one.migrate()));
    expect(await stores[0]?.claim("k", claim)).toEqual({ kind: "claimed", takeovers: 0 });
  });

  test("a lease lasts as long as it should", async () => {
    await store().claim("lease", claim);
    const running = await store().claim("lease", claim);
    expect(running).toMatchObject({ kind: "running" });
    const { leaseLeftMs } = running as { readonly leaseLeftMs: number };
    expect(leaseLeftMs).toBeLessThanOrEqual(10_000);
    expect(leaseLeftMs).toBeGreaterThan(1_000);
    await store().claim("short", { ...claim, leaseMs: 1 });
    await pool.query("SELECT pg_sleep(0.01)");
    expect(await store().claim("short", claim)).toEqual({ kind: "claimed", takeovers: 1 });
  });

  test("settleIn commits with the effect, or not at all", async () => {
    const client = await pool.connect();
    await store().claim("t", claim);
    await client.query("BEGIN");
    await client.query("INSERT INTO effects VALUES ('rolled back')");
    expect(await store().settleIn(client, "t", "a", settlement)).toBe(true);
    await client.query("ROLLBACK");
    expect(await store().claim("t", claim)).toMatchObject({ kind: "running" });
    await client.query("BEGIN");
    await client.query("INSERT INTO effects VALUES ('committed')");
    expect(await store().settleIn(client, "t", "a", settlement)).toBe(true);
    await client.query("COMMIT");
    client.release();
    expect(await store().claim("t", claim)).toMatchObject({ kind: "settled", result: { 0: 7 } });
    expect(await effects()).toBe(1);
  });

  test("a claim that finds the lease ended waits for a transaction that settles the key", async () => {
    const client = await pool.connect();
    await store().claim("slow", { ...claim, leaseMs: 1 });
    await client.query("BEGIN");
    expect(await store().settleIn(client, "slow", "a", settlement)).toBe(true);
    await pool.query("SELECT pg_sleep(0.01)");
    const second = store().claim("slow", { ...claim, owner: "b" });
    await waitsForLock();
    await client.query("COMMIT");
    client.release();
    expect(await second).toMatchObject({ kind: "settled" });
  });

  test("settleIn of a late finisher returns false", async () => {
    await store().claim("late", { ...claim, leaseMs: 1 });
    await pool.query("SELECT pg_sleep(0.01)");
    await store().claim("late", { ...claim, owner: "b" });
    expect(await store().settleIn(pool, "late", "a", settlement)).toBe(false);
  });

  test("claims that meet are repeated, also in serializable sessions", async () => {
    const options = "-c default_transaction_isolation=serializable";
    const strict = openPool({ options });
    const owners = Array.from({ length: 40 }, (_, index) => `owner-${index}`);
    const strictStore = postgresStore(strict, { table: "own_keys" });
    const results = await Promise.all(
      owners.map((owner) => strictStore.claim("serial", { ...claim, owner })),
    );
    expect(results.filter(({ kind }) => kind === "claimed")).toHaveLength(1);
    await strict.end();
  });
});

/** Resolves when a session of the server waits for a lock. */
async function waitsForLock(): Promise<void> {
  const text =
    "SELECT count(*)::int AS waiting FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
  while ((await pool.query(text)).rows[0].waiting === 0);
}
