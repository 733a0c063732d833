/** Tests of the settings over HTTP: keys, alerts, the last hour and the history of a destination. */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@redrive/core";
import { createKey, fileKeyStore, type NewKey } from "@redrive/service/http";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-settings-"));
afterAll(() => rmSync(folder, { recursive: true }));

let server: TestServer;
afterEach(() => server.close());

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** A service with a key file. Returns the keys of an operator and of the admin of a tenant. */
async function openWithKeys(name: string) {
  const keys = fileKeyStore(join(folder, `${name}.json`), systemClock);
  const add = (wanted: Omit<NewKey, "now">) => {
    const { key, record } = createKey((bytes) => randomFillSync(bytes), { ...wanted, now: 1 });
    keys.add(record);
    return key;
  };
  const operator = add({ tenantId: "default", scopes: ["admin"], name: "ops" });
  const limits = { targets: "127.0.0.1", requestsPerSecond: 900 };
  const tenant = add({ tenantId: "acme", scopes: ["admin"], name: "acme admin", limits });
  const reader = add({ tenantId: "default", scopes: ["tasks:read"], name: "reader" });
  server = await openTestServer({ keys });
  return { keys, operator, tenant, reader };
}

const list = async (key: string) =>
  (await server.call({ method: "GET", path: "/keys", headers: bearer(key) })).json;

describe("keys", () => {
  test("are listed without secrets: to the operator all, to a tenant its own", async () => {
    const { operator, tenant, reader } = await openWithKeys("list");
    const all = await list(operator);
    expect(all).toMatchObject({ isRequired: true, isChangeable: true });
    expect(
      all.keys.map(({ name, isOwn }: { name: string; isOwn: boolean }) => [name, isOwn]),
    ).toEqual([
      ["ops", true],
      ["acme admin", false],
      ["reader", false],
    ]);
    expect(JSON.stringify(all)).not.toContain("secretHash");
    expect((await list(tenant)).keys).toMatchObject([{ tenantId: "acme", isOwn: true }]);
    expect((await list(reader)).code).toBe("FORBIDDEN");
  });

  test("are created with the limits of their creator, work at once, and end when revoked", async () => {
    const { operator, tenant } = await openWithKeys("create");
    const body = { name: "worker", scopes: ["tasks:read"] };
    const made = await server.call({ path: "/keys", headers: bearer(tenant), body });
    expect(made.status).toBe(201);
    expect(made.json).toMatchObject({
      tenantId: "acme",
      limits: { targets: "127.0.0.1", requestsPerSecond: 900 },
    });
    const tasks = () =>
      server.call({ method: "GET", path: "/retry-tasks", headers: bearer(made.json.key) });
    expect((await tasks()).status).toBe(200);
    const revoke = (keyId: string, key: string) =>
      server.call({ method: "DELETE", path: `/keys/${keyId}`, headers: bearer(key) });
    const [first] = (await list(operator)).keys;
    expect((await revoke(first.keyId, tenant)).status).toBe(404);
    expect((await revoke(made.json.keyId, operator)).status).toBe(204);
    expect((await tasks()).status).toBe(401);
  });

  test("of another tenant, unknown scopes and past instants are refused with the value", async () => {
    const { operator, tenant } = await openWithKeys("refuse");
    const create = async (key: string, body: object) => {
      const { status, json } = await server.call({ path: "/keys", headers: bearer(key), body });
      return [status, json.detail];
    };
    const good = { name: "x", scopes: ["tasks:read"] };
    expect(await create(tenant, { ...good, tenantId: "default" })).toEqual([
      403,
      expect.any(String),
    ]);
    expect(await create(operator, { ...good, tenantId: "a b" })).toEqual([
      400,
      expect.stringContaining('got "a b"'),
    ]);
    expect(await create(operator, { ...good, scopes: ["tasks:write"] })).toEqual([
      400,
      expect.stringContaining('got "tasks:write"'),
    ]);
    expect(await create(operator, { ...good, expiresAt: 5 })).toEqual([
      400,
      expect.stringContaining("got 5"),
    ]);
    expect(await create(operator, { ...good, scopes: [] })).toEqual([400, expect.any(String)]);
    expect(await create(operator, { ...good, limits: {} })).toEqual([400, expect.any(String)]);
  });

  test("cannot be created where they would not outlast the process", async () => {
    server = await openTestServer();
    expect((await server.call({ method: "GET", path: "/keys" })).json).toEqual({
      isRequired: false,
      isChangeable: false,
      keys: [],
    });
    const body = { name: "x", scopes: ["admin"] };
    const { status, json } = await server.call({ path: "/keys", body });
    expect([status, json.detail]).toEqual([403, expect.stringContaining("redrive keys add")]);
  });
});

describe("alerts", () => {
  test("are shown with masked query values, and a test alert is a task", async () => {
    server = await openTestServer({ alerts: { url: "http://127.0.0.1:8099/hook?token=abc" } });
    const { json } = await server.call({ method: "GET", path: "/alerts" });
    expect(json).toMatchObject({
      url: "http://127.0.0.1:8099/hook?token=***",
      destination: "redrive.alerts",
      deadLetterRatio: 0.01,
      firing: [],
    });
    const made = await server.call({ method: "POST", path: "/alerts/test" });
    expect(made.status).toBe(202);
    const path = `/retry-tasks/${made.json.taskId}?include=body`;
    const task = (await server.call({ method: "GET", path })).json;
    expect(JSON.parse(task.body)).toMatchObject({ type: "alert.test", alert: "test" });
  });

  test("are for the operator, and need a URL", async () => {
    const { operator, tenant } = await openWithKeys("alerts");
    const call = (method: string, path: string, key: string) =>
      server.call({ method, path, headers: bearer(key) });
    expect((await call("GET", "/alerts", operator)).json).toMatchObject({ url: null, firing: [] });
    expect((await call("GET", "/alerts", tenant)).status).toBe(403);
    expect((await call("POST", "/alerts/test", operator)).status).toBe(404);
  });
});

describe("the last hour", () => {
  test("counts what happened, per minute, and knows the reasons of a changed limit", async () => {
    server = await openTestServer();
    // Two refusals in the first five calls lower a limit of five.
    const document = { concurrency: { max: 5 } };
    await server.call({ method: "PUT", path: "/destinations/pay", body: document });
    server.target.statuses = [503, 503, 200];
    const done = endings(server.redrive, 5);
    const policy = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 };
    for (let n = 0; n < 5; n++) {
      const body = { targetUrl: server.target.url, destination: "pay", policy };
      await server.call({ body });
    }
    await done;
    const { counts, minuteMs } = (await server.call({ method: "GET", path: "/activity" })).json;
    const sum = (values: readonly number[]) => values.reduce((total, each) => total + each, 0);
    expect(minuteMs).toBe(60_000);
    expect(counts.created).toHaveLength(60);
    expect([counts.created, counts.attempts, counts.retries, counts.succeeded].map(sum)).toEqual([
      5, 7, 2, 5,
    ]);
    const path = "/destinations/pay/history";
    const history = (await server.call({ method: "GET", path })).json;
    expect(sum(history.counts.attempts)).toBe(7);
    expect(sum(history.counts.failed)).toBe(2);
    expect(history.limits[0]).toMatchObject({ from: 5, to: 4, cause: "overload", detail: "503" });
  });
});
