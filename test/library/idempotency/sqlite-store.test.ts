/** The idempotency store on a real SQLite file: conformance, transactions, and several handles. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { sqliteStore } from "redrive/idempotency";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { idempotencyStoreConformance } from "../../../faces/library/src/idempotency/conformance.testing.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-idempotency-"));
afterAll(() => rmSync(folder, { recursive: true }));

function open() {
  const db = new DatabaseSync(join(folder, "keys.db"));
  db.exec("PRAGMA journal_mode = WAL");
  return db;
}

idempotencyStoreConformance("sqlite", async (clock) => {
  const db = open();
  const store = sqliteStore(db, { clock });
  await store.migrate();
  return { store, close: async () => db.close() };
});

const claim = { fingerprint: "f", owner: "a", leaseMs: 10_000, retentionMs: 60_000 };
const settlement = { result: Uint8Array.of(7), retentionMs: 60_000 };

describe("with a table of its own", () => {
  const db = open();
  const store = sqliteStore(db, { table: "own_keys" });
  beforeAll(async () => {
    await store.migrate();
    db.exec("CREATE TABLE effects (name TEXT)");
  });
  afterAll(() => db.close());
  const effects = () => db.prepare("SELECT name FROM effects").all().length;

  test("migrate can run twice, and uses the name", async () => {
    await store.migrate();
    expect(store.schema).toContain("CREATE TABLE IF NOT EXISTS own_keys");
    await store.claim("m", claim);
    expect(db.prepare("SELECT count(*) AS count FROM own_keys").get()).toEqual({ count: 1 });
  });

  test("settleIn commits with the effect, or not at all", async () => {
    await store.claim("t", claim);
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO effects VALUES ('rolled back')");
    expect(store.settleIn(db, "t", "a", settlement)).toBe(true);
    db.exec("ROLLBACK");
    expect(await store.claim("t", claim)).toMatchObject({ kind: "running" });
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO effects VALUES ('committed')");
    expect(store.settleIn(db, "t", "a", settlement)).toBe(true);
    db.exec("COMMIT");
    expect(await store.claim("t", claim)).toMatchObject({ kind: "settled", result: { 0: 7 } });
    expect(effects()).toBe(1);
  });

  test("settleIn of a late finisher returns false, in the transaction of another handle", async () => {
    const other = open();
    await store.claim("late", claim);
    other.exec("BEGIN IMMEDIATE");
    expect(store.settleIn(other, "late", "b", settlement)).toBe(false);
    other.exec("ROLLBACK");
    other.close();
  });

  test("a claim waits for a transaction that is open on the handle", async () => {
    db.exec("BEGIN IMMEDIATE");
    const claimed = store.claim("waits", claim);
    // The transaction is rolled back. What was written in it would be lost.
    await Promise.resolve();
    db.exec("ROLLBACK");
    expect(await claimed).toMatchObject({ kind: "claimed" });
    expect(await store.claim("waits", claim)).toMatchObject({ kind: "running" });
  });

  test("a claim waits for another process that writes, and not forever", async () => {
    const impatient = sqliteStore(db, { table: "own_keys", busyMs: 100 });
    const other = open();
    other.exec("BEGIN IMMEDIATE");
    await expect(impatient.claim("busy", claim)).rejects.toThrow(/locked/);
    const claimed = store.claim("busy", claim);
    other.exec("COMMIT");
    expect(await claimed).toMatchObject({ kind: "claimed" });
    other.close();
  });

  test("a transaction that never ends is an error that says so", async () => {
    const impatient = sqliteStore(db, { table: "own_keys", busyMs: 100 });
    db.exec("BEGIN IMMEDIATE");
    await expect(impatient.claim("stuck", claim)).rejects.toMatchObject({
      code: "TRANSACTION_OPEN",
    });
    db.exec("ROLLBACK");
  });

  test("an error that is not about locks is not repeated", async () => {
    const store = sqliteStore(db, { table: "missing" });
    await expect(store.claim("k", claim)).rejects.toThrow(/no such table: missing/);
  });
});

test.each(["", "a b", "a;drop", "Table", "x".repeat(49), 5])("rejects the table %j", (table) => {
  expect(() => sqliteStore({} as never, { table: table as string })).toThrow(
    /table must be a name/,
  );
});

test.each([0, 99, 60_001, Number.NaN])("rejects busyMs %d", (busyMs) => {
  expect(() => sqliteStore({} as never, { busyMs })).toThrow(/busyMs must be 100 to 60000/);
});
