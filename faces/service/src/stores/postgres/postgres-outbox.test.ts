/** Tests that a task in an open transaction of a caller keeps what it needs, and blocks nothing. */
// needs: postgres
import pg from "pg";
import { afterEach, describe, expect, it } from "vitest";
import type { WakeUp } from "../../model/lane-due.ts";
import type { Store } from "../../model/store.ts";
import { batch, claimOf, create, dueLanes, T0, TENANT } from "../store.testing.ts";
import { testServer } from "./postgres-server.testing.ts";
import { postgresStore } from "./postgres-store.ts";

const server = testServer();
const opened: { end(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.end();
});

interface Place {
  readonly store: Store;
  readonly schema: string;
  /** A connection of the caller. */
  connect(): Promise<pg.Client>;
}

async function place(): Promise<Place> {
  const url = await server.nextUrl();
  const store = await postgresStore(url);
  opened.push({ end: () => store.close() });
  const [database = "", schema = ""] = url.split(/\?schema=|&/u);
  const connect = async () => {
    const client = new pg.Client(database);
    await client.connect();
    opened.push(client);
    return client;
  };
  return { store, schema, connect };
}

const createIn = (store: Store, tx: pg.Client, item = create()) => store.createIn?.(tx, item);

async function removeAllUnused(store: Store): Promise<void> {
  let cursor: string | null | undefined;
  while (cursor !== null) {
    ({ cursor } = await store.removeUnused({ now: 0, limit: 100, cursor }));
  }
}

describe("a task in an open transaction", () => {
  it("keeps its destination, and is claimed after the commit", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    await tx.query("BEGIN");
    const item = create({ destination: "a\0b \u0001 ü" });
    expect(await createIn(store, tx, item)).toEqual({ kind: "created", started: null, row: null });
    await removeAllUnused(store);
    expect(await dueLanes(store)).toEqual([]);
    await tx.query("COMMIT");
    const { tenantId, taskId, destination } = item.task;
    const lane = {
      tenantId,
      destination,
      lane: "first",
      partition: 0,
      dueAt: item.task.scheduledAt,
    };
    expect(await dueLanes(store)).toEqual([lane]);
    const { claims } = await store.commit(batch({ claims: [claimOf("first", { destination })] }));
    expect(claims[0]?.tasks.map((task) => task.taskId)).toEqual([taskId]);
  });

  it("leaves a destination without tasks after a rollback, which is then removed", async () => {
    const { store, schema, connect } = await place();
    const tx = await connect();
    await tx.query("BEGIN");
    await createIn(store, tx);
    await tx.query("ROLLBACK");
    expect((await store.query.destinations(TENANT, { limit: 10 })).destinations).toEqual([]);
    await removeAllUnused(store);
    for (const table of ["destinations", "counts", "tasks", "idempotency_keys"]) {
      expect(await server.run(`SELECT * FROM ${schema}.${table}`)).toEqual([]);
    }
  });

  it("keeps its policy, which cannot be removed until the end", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    const policy = { tenantId: TENANT, policyId: "inline.p", version: 1 };
    await store.addPolicy({ ...policy, document: "{}", createdAt: 0 });
    const item = create({ policyId: "inline.p", policyVersion: 1 });
    await tx.query("BEGIN");
    await createIn(store, tx, item);
    await store.removeInline([policy]);
    expect(await store.removePolicy(TENANT, "inline.p", 1)).toBe(false);
    expect(await store.getPolicy(TENANT, "inline.p")).not.toBeNull();
    await tx.query("ROLLBACK");
    await store.removeInline([policy]);
    expect(await store.getPolicy(TENANT, "inline.p")).toBeNull();
    await tx.query("BEGIN");
    expect(await createIn(store, tx, item)).toEqual({ kind: "unknown-policy" });
    await tx.query("COMMIT");
    expect(await store.query.count(TENANT)).toEqual({});
  });

  it("wakes the node that leases its partition once it is committed, if it is due soon", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    const heard: WakeUp[] = [];
    store.onWakeUp((wakeUp) => heard.push(wakeUp)).follow([0]);
    const heardOf = (name: string) =>
      heard
        .flatMap((wakeUp) => (typeof wakeUp === "string" ? [] : wakeUp))
        .filter(({ destination }) => destination === name);
    const enqueue = async (destination: string) => {
      await tx.query("BEGIN");
      await createIn(store, tx, create({ destination, scheduledAt: T0 + 60_000 }));
      await createIn(store, tx, create({ destination }));
      expect(heardOf(destination)).toEqual([]);
      await tx.query("COMMIT");
    };
    // The store follows a channel soon.
    let probes = 0;
    const isTold = async () => {
      await enqueue(`probe-${++probes}`);
      return heard.length > 0;
    };
    await expect.poll(isTold).toBe(true);
    await enqueue("d");
    const lane = { tenantId: TENANT, destination: "d", lane: "first", partition: 0, dueAt: T0 };
    await expect.poll(() => heardOf("d")).toEqual([lane]);
  });

  it("has a key, a policy and a destination of its tenant only", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    const policy = { tenantId: TENANT, policyId: "p", version: 1, document: "{}", createdAt: 0 };
    await store.addPolicy(policy);
    const itemOf = (tenantId: string, policyVersion: number) =>
      create({ tenantId, idempotencyKey: "k", policyId: "p", policyVersion }, { fingerprint: "f" });
    await store.commit(batch({ creates: [itemOf(TENANT, 1)] }));
    await tx.query("BEGIN");
    expect(await createIn(store, tx, itemOf("other", 1))).toEqual({ kind: "unknown-policy" });
    expect(await createIn(store, tx, itemOf("other", 0))).toMatchObject({ kind: "created" });
    expect(await createIn(store, tx, itemOf(TENANT, 1))).toMatchObject({ kind: "replayed" });
    await tx.query("COMMIT");
    expect(await store.query.count("other")).toEqual({ PENDING: 1 });
    expect(await store.query.count(TENANT)).toEqual({ PENDING: 1 });
  });

  it("has counts of its own, which are added to the others later", async () => {
    const { store, schema, connect } = await place();
    for (let n = 0; n < 3; n++) {
      const tx = await connect();
      await tx.query("BEGIN");
      await createIn(store, tx);
      await createIn(store, tx);
      await tx.query("COMMIT");
    }
    const counts = () => server.run(`SELECT node_id, count FROM ${schema}.counts`);
    expect(await counts()).toHaveLength(3);
    expect(await store.query.count(TENANT)).toEqual({ PENDING: 6 });
    await removeAllUnused(store);
    expect(await counts()).toEqual([{ node_id: "", count: "6" }]);
    expect(await store.query.count(TENANT)).toEqual({ PENDING: 6 });
  });
});

describe("a task that a transaction cannot store", () => {
  const keyed = (key: string) => create({ idempotencyKey: key }, { fingerprint: "f" });
  const failure = (state: string) =>
    expect.objectContaining({
      code: "TRANSACTION_FAILED",
      message: expect.stringContaining(state),
      cause: expect.objectContaining({ code: state }),
    });

  it("is refused if its key is younger than a REPEATABLE READ transaction", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    await tx.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await tx.query("SELECT count(*) FROM pg_class");
    await store.commit(batch({ creates: [keyed("k")] }));
    await expect(createIn(store, tx, keyed("k"))).rejects.toEqual(failure("40001"));
    expect((await tx.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await tx.query("ROLLBACK");
    await tx.query("BEGIN");
    expect(await createIn(store, tx, keyed("k"))).toMatchObject({ kind: "replayed" });
    await tx.query("COMMIT");
  });

  it("is refused after the caller's own lock timeout, and only the task is undone", async () => {
    const { store, connect } = await place();
    const [one, two] = [await connect(), await connect()];
    await one.query("BEGIN");
    await createIn(store, one, keyed("k"));
    await two.query("BEGIN; SET LOCAL lock_timeout = 100");
    await createIn(store, two, keyed("other"));
    await expect(createIn(store, two, keyed("k"))).rejects.toEqual(failure("55P03"));
    await two.query("COMMIT");
    await one.query("COMMIT");
    expect(await store.query.count(TENANT)).toEqual({ PENDING: 2 });
  });

  it("is refused if the caller's connection is lost, without a word about the store", async () => {
    const { store, connect } = await place();
    const tx = await connect();
    tx.on("error", () => {});
    await tx.query("BEGIN");
    const { rows } = await tx.query("SELECT pg_backend_pid() AS pid");
    await server.run("SELECT pg_terminate_backend($1)", [rows[0].pid]);
    await expect(createIn(store, tx)).rejects.toMatchObject({ code: "TRANSACTION_FAILED" });
    expect(await store.query.count(TENANT)).toEqual({});
  });
});
