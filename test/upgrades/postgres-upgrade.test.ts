/**
 * Tests that a PostgreSQL store of an earlier schema is upgraded with all of its data. The fixture has
 * the tables and functions of that version, and rows of every kind that it wrote.
 */
// needs: postgres
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { LATE_REPORT } from "../../faces/service/src/model/node-report.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { testServer } from "../../faces/service/src/stores/postgres/postgres-server.testing.ts";
import { postgresStore } from "../../faces/service/src/stores/postgres/postgres-store.ts";
import { SCHEMA_VERSION } from "../../faces/service/src/stores/postgres/schema/migrations.ts";
import {
  batch,
  claimOf,
  create,
  dueLanes,
  partitionsOf,
  report,
  settle,
} from "../../faces/service/src/stores/store.testing.ts";
import { startOlderNode } from "./postgres/older-node.ts";

const T0 = 1_800_000_000_000;
const FIXTURE = readFileSync(new URL("./postgres/schema-2.sql", import.meta.url), "utf8");
const BODY = new Uint8Array([0, 1, 255, 92, 120, 65]);

const server = testServer();

/** A schema with the fixture, and the roles that a user gave access. */
async function load(): Promise<{ url: string; schema: string }> {
  const url = await server.nextUrl();
  const schema = new URL(url).searchParams.get("schema") ?? "";
  await server.run(`CREATE SCHEMA ${schema}; SET search_path TO ${schema}, pg_temp; ${FIXTURE};
    RESET search_path`);
  return { url, schema };
}

async function tasksOf(store: Store, tenantId: string) {
  const { tasks } = await store.query.list(tenantId, {}, { limit: 100 });
  return new Map(tasks.map((task) => [task.idempotencyKey ?? task.taskId.slice(-2), task]));
}

describe("a PostgreSQL store of schema 3", () => {
  it("gets the functions of this version, and keeps its tasks", async () => {
    const url = await server.nextUrl();
    const schema = new URL(url).searchParams.get("schema") ?? "";
    const before = await postgresStore(url);
    const { task } = create();
    await before.commit(batch({ creates: [{ task, fingerprint: null, claimVersion: null }] }));
    await before.close();
    // Its tables are those of this version, but a retired node was forgotten.
    await server.run(`UPDATE ${schema}.schema_version SET version = 3;
      CREATE OR REPLACE FUNCTION ${schema}.retire_node(me text) RETURNS void LANGUAGE sql
      AS $$ DELETE FROM ${schema}.nodes WHERE node_id = me $$`);
    const store = await postgresStore(url);
    expect(await server.run(`SELECT version FROM ${schema}.schema_version`)).toEqual([
      { version: SCHEMA_VERSION },
    ]);
    expect((await store.query.get(task.tenantId, task.taskId))?.status).toBe("PENDING");
    await store.retire("node-1");
    await expect(store.renew(report("node-1"))).rejects.toThrow(LATE_REPORT);
    await store.close();
  });
});

describe("a PostgreSQL store of schema 2", () => {
  it("is upgraded with the state of every task", async () => {
    const { url, schema } = await load();
    const store = await postgresStore(url);
    expect(await server.run(`SELECT version FROM ${schema}.schema_version`)).toEqual([
      { version: SCHEMA_VERSION },
    ]);
    const tasks = await tasksOf(store, "acme");
    const states = [...tasks].map(([name, task]) => [name, task.status, task.attemptNumber]);
    expect(Object.fromEntries(states.map(([name, ...rest]) => [name, rest]))).toEqual({
      waits: ["PENDING", 0],
      "03": ["PENDING", 0],
      succeeded: ["SUCCEEDED", 1],
      retried: ["SUCCEEDED", 3],
      // The key of the dead letter is also that of its redrive, which the list has first.
      dead: ["EXHAUSTED", 2],
      "waiting-again": ["PENDING", 1],
      claimed: ["IN_FLIGHT", 2],
      requested: ["IN_FLIGHT", 1],
      10: ["CANCELLED", 0],
    });
    expect(await store.query.count("acme")).toEqual({
      PENDING: 4,
      IN_FLIGHT: 2,
      SUCCEEDED: 2,
      EXHAUSTED: 1,
      CANCELLED: 1,
    });
    expect(tasks.get("claimed")).toMatchObject({
      ...{ claimedBy: "node-1", claimEpoch: 3, claimedAt: T0 + 1000, lane: "retry" },
      ...{ lastStatus: 503, lastError: "answered 503", lastDelayMs: 500 },
    });
    expect(tasks.get("requested")).toMatchObject({ cancelRequestedAt: T0 });
    expect(tasks.get("dead")).toMatchObject({
      ...{ reason: "attempts", finishedAt: T0 + 1000, nextAttemptAt: T0 + 500 },
      redrivenTo: "01a3185c-5000-7000-800a-000000000011",
    });
    await store.close();
  });

  it("keeps what never changes of a task", async () => {
    const { url } = await load();
    const store = await postgresStore(url);
    const task = await store.query.get("acme", "01a3185c-5000-7000-8000-000000000001");
    expect(task).toMatchObject({
      ...{ tenantId: "acme", idempotencyKey: "waits", destination: "https://example.com" },
      ...{ targetUrl: 'https://example.com/hook?a="1"', method: "POST", bodyRef: null },
      headers: { "content-type": "application/json", "x-odd": "a\u0001b\\c" },
      ...{ policyId: "background", policyVersion: 0, idempotent: true, deadlineAt: T0 + 9e6 },
      ...{ createdAt: T0, scheduledAt: T0, callbackUrl: "https://cb.example/" },
      labels: { team: "a", "o'dd": 'l"abel' },
    });
    expect(task?.body).toEqual(BODY);
    const other = await store.query.get("globex", "01a3185c-5000-7000-8001-000000000002");
    expect(other?.body).toBeNull();
    await store.close();
  });

  it("keeps attempts, also those of removed days, and adds further ones", async () => {
    const { url } = await load();
    const store = await postgresStore(url);
    const tasks = await tasksOf(store, "acme");
    const numbersOf = async (key: string) => {
      const taskId = tasks.get(key)?.taskId ?? "";
      const { attempts } = await store.query.attempts("acme", taskId, { limit: 10 });
      return attempts.map(({ attemptNumber }) => attemptNumber);
    };
    expect(await numbersOf("retried")).toEqual([1, 2, 3]);
    expect(await numbersOf("dead")).toEqual([1, 2]);
    const claimed = (await store.claimsOf("node-1", 10)).find(
      ({ idempotencyKey }) => idempotencyKey === "claimed",
    );
    if (claimed === undefined) throw new Error("the claim is missing");
    const end = settle(claimed, { status: "SUCCEEDED", reason: "succeeded" });
    const { settles } = await store.commit(batch({ now: T0, settles: [end] }));
    expect(settles).toEqual(["SUCCEEDED"]);
    expect(await numbersOf("claimed")).toEqual([1, 2]);
    await store.close();
  });

  it("claims what waited, finds lapsed claims, and keeps keys, labels and documents", async () => {
    const { url } = await load();
    const store = await postgresStore(url);
    expect((await dueLanes(store)).map(({ destination }) => destination)).toContain(
      "https://other.example",
    );
    const place = { tenantId: "acme", destination: "https://example.com" };
    const claim = { ...claimOf("retry"), ...place, partitions: partitionsOf(store) };
    const { claims } = await store.commit(batch({ now: T0 + 1000, claims: [claim] }));
    expect(claims[0]?.tasks.map(({ idempotencyKey }) => idempotencyKey)).toEqual(["waiting-again"]);
    expect(claims[0]?.tasks[0]).toMatchObject({ attemptNumber: 2, claimEpoch: 5, lastStatus: 503 });
    const lapsed = await store.lapsed({
      nodeId: "node-2",
      partitions: partitionsOf(store),
      limit: 10,
    });
    expect(lapsed.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
      expect.arrayContaining(["claimed", "requested"]),
    );
    const labeled = await store.query.list(
      "acme",
      { label: { name: "team", value: "a" } },
      { limit: 10 },
    );
    expect(labeled.tasks).toHaveLength(2);
    const known = await store.query.list("acme", { idempotencyKey: "dead" }, { limit: 10 });
    expect(known.tasks).toHaveLength(2);
    expect(await store.documents.get("guards", "acme", "https://example.com")).toMatchObject({
      text: '{"b":2}',
    });
    expect(await store.removePolicy("acme", "mine", T0)).toBe(false);
    await store.close();
  });

  it("has what older nodes commit until the upgrade, and refuses their commits then", async () => {
    const { url, schema } = await load();
    const older = { url, schema, now: T0 };
    const nodes = await Promise.all([1, 2, 3].map((number) => startOlderNode(older, number)));
    await expect.poll(() => nodes.every(({ settled }) => settled.length > 3)).toBe(true);
    const store = await postgresStore(url);
    const states = await Promise.all(nodes.map(({ failed }) => failed));
    // No such function or table, or it vanished during the call. The node repeats its commits until it
    // is restarted.
    expect(["42883", "42P01", "XX000"]).toEqual(expect.arrayContaining(states));
    const settled = nodes.flatMap((node) => node.settled);
    for (const taskId of settled) {
      const task = await store.query.get("acme", taskId);
      expect(task).toMatchObject({ status: "SUCCEEDED", attemptNumber: 1, reason: "succeeded" });
    }
    const { SUCCEEDED, IN_FLIGHT = 0 } = await store.query.count("acme");
    expect(SUCCEEDED).toBe(2 + settled.length);
    // Each older node may have claimed a task that it could not settle.
    expect(IN_FLIGHT - 2).toBeLessThanOrEqual(nodes.length);
    await store.close();
  });

  it("keeps the right to enqueue inside a transaction that a user granted", async () => {
    const { url, schema } = await load();
    await server.run(`CREATE ROLE shop_${schema}; GRANT EXECUTE ON FUNCTION
      ${schema}.enqueue_task(text, int, bigint, jsonb, bytea, text) TO shop_${schema}`);
    await (await postgresStore(url)).close();
    const rows = await server.run(`SELECT has_function_privilege('shop_${schema}',
      '${schema}.enqueue_task(text, int, bigint, jsonb, bytea, text)', 'EXECUTE') AS may`);
    expect(rows).toEqual([{ may: true }]);
  });
});
