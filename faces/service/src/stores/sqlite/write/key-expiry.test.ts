/** Tests that the end of a task does not write its key, and that the sweep finds every key once. */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { KEY_RETENTION_MS, type Store } from "../../../model/store.ts";
import { batch, claimFirst, create, settle, T0, TENANT } from "../../store.testing.ts";
import { migrate } from "../file/migrations.ts";
import { sqliteStore } from "../sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-keys-"));
let files = 0;
const nextFile = () => join(folder, `${++files}.db`);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TASKS = 200;

/** Keys in no order, as callers choose them. */
function keyOf(number: number): string {
  return `${(number * 7919) % 1000}-key-${number}-${"x".repeat(60)}`;
}

function creates(withKeys: boolean, from = 0) {
  return Array.from({ length: TASKS }, (_, index) =>
    withKeys
      ? create({ idempotencyKey: keyOf(from + index) }, { fingerprint: "f".repeat(43) })
      : create(),
  );
}

async function endAll(store: Store, now = T0): Promise<void> {
  const claims = await claimFirst(store, TASKS);
  const settles = claims.map((claim) => settle(claim, { status: "SUCCEEDED", reason: null }));
  await store.commit(batch({ now, settles }));
}

/** How many bytes the log grows when tasks end. */
async function bytesOfEnds(withKeys: boolean): Promise<number> {
  const file = nextFile();
  const store = sqliteStore(file);
  await store.commit(batch({ creates: creates(withKeys) }));
  const claims = await claimFirst(store, TASKS);
  const before = statSync(`${file}-wal`).size;
  const settles = claims.map((claim) => settle(claim, { status: "SUCCEEDED", reason: null }));
  await store.commit(batch({ settles }));
  const grown = statSync(`${file}-wal`).size - before;
  await store.close();
  return grown;
}

const sweep = (store: Store, now: number, limit: number) =>
  store.sweep({ now, endedBefore: 0, deadBefore: 0, limit });

describe("the expiry of idempotency keys", () => {
  it("adds nothing to what the end of a task writes", async () => {
    expect(await bytesOfEnds(true)).toBe(await bytesOfEnds(false));
  });

  it("visits each ended task once, in slices, also across a restart", async () => {
    const file = nextFile();
    let store = sqliteStore(file);
    await store.commit(batch({ creates: creates(true) }));
    await endAll(store);
    await store.commit(batch({ creates: creates(true, TASKS) }));
    const expiryAt = T0 + KEY_RETENTION_MS;
    expect(await sweep(store, expiryAt - 1, 10)).toBe(0);
    expect(await sweep(store, expiryAt, 150)).toBe(150);
    await store.close();
    store = sqliteStore(file);
    expect(await sweep(store, expiryAt, 150)).toBe(TASKS - 150);
    expect(await sweep(store, expiryAt, 150)).toBe(0);
    await store.close();
    expect(keysIn(file)).toBe(TASKS);
  });

  it("keeps the expiry of keys in a file of an earlier version", async () => {
    const file = nextFile();
    makeVersionTwo(file);
    const store = sqliteStore(file);
    await sweep(store, T0 + KEY_RETENTION_MS - 1, 10);
    const keyed = () => create({ idempotencyKey: "k" }, { fingerprint: "f" });
    const replay = await store.commit(batch({ creates: [keyed()] }));
    expect(replay.creates).toEqual([{ kind: "replayed", taskId: "old" }]);
    while ((await sweep(store, T0 + KEY_RETENTION_MS, 10)) > 0);
    const anew = await store.commit(batch({ creates: [keyed()] }));
    expect(anew.creates[0]?.kind).toBe("created");
    await store.close();
  });
});

/** A file with one ended task. Version 2 set the expiry of a key when its task ended. */
function makeVersionTwo(file: string): void {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL");
  migrate(database, 0, 2);
  database.exec(`
    INSERT INTO destinations VALUES (1, '${TENANT}', 'd', 0, NULL, NULL, 0, 'CLOSED', 0, 0);
    INSERT INTO tasks (ref, tenant_id, task_id, destination_id, status, lane, next_attempt_at,
      attempt_number, claim_epoch, last_delay_ms, abandoned_count, finished_at)
      VALUES (1, '${TENANT}', 'old', 1, 2, 0, 0, 1, 2, 0, 0, ${T0});
    INSERT INTO payloads (ref, created_at, scheduled_at, idempotency_key, target_url, method,
      headers, policy_id, policy_version, idempotent, labels)
      VALUES (1, 0, 0, 'k', 'http://d', 'POST', '{}', 'p', 1, 1, '{}');
    INSERT INTO idempotency_keys VALUES ('${TENANT}', 'k', 'old', 'f', ${T0 + KEY_RETENTION_MS})`);
  database.close();
}

function keysIn(file: string): number {
  const database = new DatabaseSync(file);
  const row = database.prepare("SELECT count(*) AS n FROM idempotency_keys").get();
  database.close();
  return (row as unknown as { readonly n: number }).n;
}
