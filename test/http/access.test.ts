/** Access: who may do what, what strangers learn, and what is never told. */
import { createKey, type KeyStore, memoryKeyStore, type Scope } from "@redrive/service/http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type Front, openFront, type Sent } from "./test-server.ts";

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map((_, at) => (drawn++ * 7 + at * 13) % 256));
};

const book: KeyStore = memoryKeyStore();
function keyFor(tenantId: string, ...scopes: Scope[]): string {
  const { key, record } = createKey(fill, { tenantId, scopes, now: 0 });
  book.add(record);
  return key;
}

const operator = keyFor("default", "metrics:read");
const admin = keyFor("acme", "admin");
const other = keyFor("other", "admin");
const reader = keyFor("acme", "tasks:read");
const creator = keyFor("acme", "tasks:create");
const logs: string[] = [];
let front: Front;
const as = (key: string, sent: Sent): Promise<Answer> =>
  front.call({ ...sent, headers: { authorization: `Bearer ${key}`, ...sent.headers } });
const create = (key: string, change: object = {}) =>
  as(key, { body: { targetUrl: front.target.url, policy: { maxAttempts: 1 }, ...change } });

beforeAll(async () => {
  const stream = { write: (line: string) => void logs.push(line) };
  front = await openFront({ keys: book, logger: { level: "trace", stream } });
});
afterAll(() => front.close());

describe("row 54: without a valid key", () => {
  const secret = admin.slice(admin.lastIndexOf("_") + 1);
  const cases: readonly [string, Sent["headers"], string?][] = [
    ["none", {}],
    ["a wrong one", { authorization: `Bearer ${admin.slice(0, -1)}x` }],
    ["an unknown id", { authorization: `Bearer rdv_unknown_${secret}` }],
    ["in the query", {}, `?api_key=${admin}&access_token=${admin}`],
    ["of 10 KB", { authorization: `Bearer ${"x".repeat(10_240)}` }],
    ["with Bearer twice", { authorization: `Bearer Bearer ${admin}` }],
    ["as Basic", { authorization: `Basic ${Buffer.from(`${admin}:`).toString("base64")}` }],
    ["in another header", { "x-api-key": admin }],
  ];
  test.each(cases)("%s: 401, always in the same words", async (_, headers = {}, query = "") => {
    const answer = await front.call({ method: "GET", path: `/retry-tasks${query}`, headers });
    const bare = await front.call({ method: "GET", path: "/retry-tasks" });
    expect(answer.status).toBe(401);
    expect(answer.text).toBe(bare.text);
    expect(answer.headers["www-authenticate"]).toMatch(/^Bearer/);
  });

  test("an unknown path tells a stranger nothing, health answers", async () => {
    expect((await front.call({ method: "GET", path: "/nothing" })).status).toBe(401);
    expect((await front.call({ method: "GET", path: "/healthz" })).json).toEqual({ status: "ok" });
    expect((await front.call({ method: "GET", path: "/metrics" })).status).toBe(401);
  });

  test("a key that was revoked, or has ended", async () => {
    const { key, record } = createKey(fill, {
      tenantId: "acme",
      scopes: ["admin"],
      now: 0,
      expiresAt: 1,
    });
    book.add(record);
    expect((await create(key)).status).toBe(401);
    const gone = keyFor("acme", "admin");
    expect((await create(gone)).status).toBe(202);
    book.revoke(gone.split("_")[1] ?? "");
    expect((await create(gone)).status).toBe(401);
  });
});

describe("row 55: a key that lacks the scope", () => {
  const cases: readonly [string, string, Sent][] = [
    ["tasks:create", reader, { body: {} }],
    ["tasks:read", creator, { method: "GET" }],
    ["tasks:cancel", reader, { method: "DELETE", path: "/retry-tasks/x" }],
    ["dlq:redrive", reader, { path: "/redrives", body: { filter: {} } }],
    ["metrics:read", reader, { method: "GET", path: "/metrics" }],
    ["admin", reader, { path: "/retry-policies", body: {} }],
    ["admin", creator, { path: "/destinations/x/pause" }],
  ];
  test.each(cases)("%s: 403 that names it", async (scope, key, sent) => {
    const { status, json } = await as(key, sent);
    expect([status, json.code]).toEqual([403, "FORBIDDEN"]);
    expect(json.detail).toContain(scope);
  });

  test("metrics tell of every tenant: they are for keys of the operator's, whatever another's may do", async () => {
    const metrics = { method: "GET", path: "/metrics" } as const;
    expect((await as(operator, metrics)).text).toContain("retry_tasks");
    for (const key of [admin, keyFor("acme", "metrics:read")]) {
      const { status, json } = await as(key, metrics);
      expect([status, json.code]).toEqual([403, "FORBIDDEN"]);
      expect(json.detail).toContain('tenant "default"');
    }
  });

  test("payload:read: bodies are apart from the rest", async () => {
    const { json } = await create(creator, { body: "secret payload" });
    const path = `/retry-tasks/${json.taskId}`;
    expect((await as(reader, { method: "GET", path: `${path}?include=body` })).status).toBe(403);
    expect((await as(admin, { method: "GET", path: `${path}?include=body` })).json.body).toBe(
      "secret payload",
    );
    expect((await as(reader, { method: "GET", path })).text).not.toContain("secret payload");
  });
});

describe("I42: another tenant", () => {
  test("finds nothing of ours: 404, the same as for what never was", async () => {
    const { json } = await create(admin, { labels: { of: "acme" } });
    await as(admin, { method: "PUT", path: "/destinations/ours", body: {} });
    await as(admin, { path: "/retry-policies", body: { policyId: "ours" } });
    const redrive = await as(admin, { path: "/redrives", body: { filter: {} } });
    const never = "00000000-0000-7000-8000-000000000000";
    const pairs = [
      ["GET", (id: string) => `/retry-tasks/${id}`, json.taskId],
      ["GET", (id: string) => `/retry-tasks/${id}/attempts`, json.taskId],
      ["DELETE", (id: string) => `/retry-tasks/${id}`, json.taskId],
      ["POST", (id: string) => `/retry-tasks/${id}/retry`, json.taskId],
      ["GET", (id: string) => `/redrives/${id}`, redrive.json.redriveId],
      ["POST", (id: string) => `/redrives/${id}/cancel`, redrive.json.redriveId],
      ["GET", (id: string) => `/destinations/${id}`, "ours"],
      ["POST", (id: string) => `/destinations/${id}/pause`, "ours"],
      ["GET", (id: string) => `/retry-policies/${id}`, "ours"],
      ["DELETE", (id: string) => `/retry-policies/${id}`, "ours"],
    ] as const;
    for (const [method, path, id] of pairs) {
      const theirs = await as(other, { method, path: path(id) });
      const nothing = await as(other, { method, path: path(never) });
      expect([theirs.status, nothing.status], path(id)).toEqual([404, 404]);
      expect(theirs.text.replaceAll(id, never)).toBe(nothing.text);
    }
    for (const path of ["/retry-tasks", "/dead-letters", "/destinations", "/redrives"]) {
      const { text } = await as(other, { method: "GET", path });
      expect(text).toMatch(/^\{"\w+":\[\]/);
    }
    const redriving = await as(other, { path: "/redrives", body: { taskIds: [json.taskId] } });
    expect(redriving.status).toBe(404);
  });

  test("row 52: a cursor of ours is refused", async () => {
    for (let n = 0; n < 2; n++) await create(admin);
    const { json } = await as(admin, { method: "GET", path: "/retry-tasks?limit=1" });
    const path = `/retry-tasks?cursor=${json.cursor}`;
    expect((await as(admin, { method: "GET", path })).status).toBe(200);
    expect((await as(other, { method: "GET", path })).status).toBe(400);
  });
});

describe("I43: secrets", () => {
  const canary = "canary-1f8a93";

  test("are in no answer, no problem, no metric and no log", async () => {
    const headers = {
      Authorization: `Bearer ${canary}`,
      "x-api-key": canary,
      accept: "text/plain",
    };
    const url = `${front.target.url}?token=${canary}`;
    const { json } = await create(creator, { targetUrl: url, headers, body: canary });
    const answers = [
      await as(reader, { method: "GET", path: `/retry-tasks/${json.taskId}` }),
      await as(reader, { method: "GET", path: "/retry-tasks" }),
      await as(reader, { method: "GET", path: `/retry-tasks/${json.taskId}/attempts` }),
      await as(operator, { method: "GET", path: "/metrics" }),
      await create(creator, { targetUrl: url, headers: { "bad name": canary } }),
      await create(creator, { targetUrl: url, headers: { "x-a": `${canary}\n` } }),
      await create(creator, { targetUrl: url, body: canary, json: canary }),
      await create(creator, { targetUrl: url, bodyBase64: `${canary}!` }),
    ];
    for (const { text } of answers) expect(text).not.toContain(canary);
    expect(answers[0]?.json.headers).toEqual({
      Authorization: "***",
      "x-api-key": "***",
      accept: "text/plain",
    });
    expect(answers[0]?.json.targetUrl).toBe(`${front.target.url}?token=***`);
    const told = await as(admin, { method: "GET", path: `/retry-tasks/${json.taskId}` });
    expect(told.json.headers.Authorization).toBe("***");
    const log = logs.join("");
    for (const secret of [canary, admin, creator]) expect(log).not.toContain(secret);
  });
});
