/** Tests of sessions: a browser signs in with a key, and other pages cannot use its cookie. */
import { createKey, memoryKeyStore, type Scope } from "@redrive/service/http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestServer, type Sent, type TestServer } from "./test-server.ts";

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map((_, at) => (drawn++ * 17 + at * 3) % 256));
};
const keys = memoryKeyStore();
function newKey(...scopes: Scope[]) {
  const { key, record } = createKey(fill, { tenantId: "acme", scopes, now: 0 });
  keys.add(record);
  return { key, keyId: record.keyId };
}
const admin = newKey("admin");
const reader = newKey("tasks:read");
const secret = new Uint8Array(32).fill(7);
let server: TestServer;

beforeAll(async () => {
  server = await openTestServer({ keys, sessionSecret: secret });
});
afterAll(() => server.close());

const host = () => `127.0.0.1:${server.port}`;
const signIn = (key: string, headers: Sent["headers"] = {}) =>
  server.call({ path: "/ui/session", body: { key }, headers });
async function cookieOf(key: string): Promise<string> {
  const { headers } = await signIn(key);
  return headers["set-cookie"]?.[0]?.split(";")[0] ?? "";
}
const list = (cookie: string, headers: Sent["headers"] = {}) =>
  server.call({ method: "GET", path: "/retry-tasks", headers: { cookie, ...headers } });
const create = (cookie: string, headers: Sent["headers"] = {}) =>
  server.call({ body: { targetUrl: server.target.url }, headers: { cookie, ...headers } });

describe("a sign-in", () => {
  test("returns the rights of the key and an HttpOnly, SameSite=Strict cookie without the key", async () => {
    const response = await signIn(reader.key);
    expect(response.status).toBe(200);
    expect(response.json).toMatchObject({ tenantId: "acme", scopes: ["tasks:read"] });
    const [cookie = ""] = response.headers["set-cookie"] ?? [];
    expect(cookie).toMatch(
      /^redrive_session=\S+; Path=\/; Max-Age=(43200|43199); HttpOnly; SameSite=Strict$/u,
    );
    const secretPart = reader.key.slice(reader.key.lastIndexOf("_") + 1);
    expect(cookie + response.text).not.toContain(secretPart);
  });

  test("is Secure if the page was loaded over https", async () => {
    const response = await signIn(reader.key, { origin: `https://${host()}` });
    expect(response.headers["set-cookie"]?.[0]).toMatch(/; Secure$/u);
  });

  test.each([
    ["a wrong key", { key: "rdv_unknown_0123456789012345678901234567890123456789" }, 401],
    ["no key", {}, 400],
    ["a number", { key: 3 }, 400],
  ])("is refused with %s", async (_, body, status) => {
    const response = await server.call({ path: "/ui/session", body });
    expect(response.status).toBe(status);
    expect(response.headers["set-cookie"]).toBeUndefined();
  });

  test("is refused for a page of another origin", async () => {
    const response = await signIn(admin.key, { origin: "https://evil.example" });
    expect(response.json.code).toBe("CROSS_ORIGIN");
  });
});

describe("a session", () => {
  test("may do what its key may do, and nothing else", async () => {
    const cookie = await cookieOf(reader.key);
    expect((await list(cookie)).status).toBe(200);
    const origin = `http://${host()}`;
    expect((await create(cookie, { origin })).json.code).toBe("FORBIDDEN");
    const who = await server.call({ method: "GET", path: "/ui/session", headers: { cookie } });
    expect(who.json).toEqual({ tenantId: "acme", scopes: ["tasks:read"], requiresKey: true });
    expect((await server.call({ method: "GET", path: "/ui/session" })).status).toBe(401);
  });

  test("may write only from a page of this host", async () => {
    const cookie = await cookieOf(admin.key);
    expect((await create(cookie, { origin: `http://${host()}` })).status).toBe(202);
    for (const headers of [
      {},
      { origin: "null" },
      { origin: "https://evil.example" },
      { origin: `http://${host()}`, "sec-fetch-site": "cross-site" },
    ]) {
      expect((await create(cookie, headers)).json.code).toBe("CROSS_ORIGIN");
    }
  });

  test("is not needed with a key, which needs no origin", async () => {
    const authorization = `Bearer ${admin.key}`;
    expect((await create("redrive_session=x", { authorization })).status).toBe(202);
  });

  test("does not replace a wrong key", async () => {
    const cookie = await cookieOf(admin.key);
    expect((await list(cookie, { authorization: "Bearer wrong" })).status).toBe(401);
  });

  test("ends with its key, at once", async () => {
    const { key, keyId } = newKey("admin");
    const cookie = await cookieOf(key);
    expect((await list(cookie)).status).toBe(200);
    keys.revoke(keyId);
    expect((await list(cookie)).status).toBe(401);
  });

  test.each([
    [
      "a changed character",
      (value: string) => `${value.slice(0, -2)}${value.endsWith("A") ? "BB" : "AA"}`,
    ],
    ["a later expiry", (value: string) => value.replace(/\.\d+\./u, ".9999999999999.")],
    ["another key id", (value: string) => value.replace(/=[^.]+/u, `=${admin.keyId}`)],
    ["nothing", () => "redrive_session="],
    ["too many cookies", (value: string) => `${"a=b;".repeat(3000)}${value}`],
  ])("is refused with %s", async (_, change) => {
    const cookie = change(await cookieOf(reader.key));
    expect((await list(cookie)).status).toBeGreaterThanOrEqual(400);
  });

  test("of another node is accepted if both have the same secret, and refused otherwise", async () => {
    const cookie = await cookieOf(reader.key);
    const get = { method: "GET", path: "/retry-tasks", headers: { cookie } };
    for (const [sessionSecret, status] of [
      [secret, 200],
      [new Uint8Array(32).fill(8), 401],
      [undefined, 401],
    ] as const) {
      const node = await openTestServer({ keys, ...(sessionSecret && { sessionSecret }) });
      expect((await node.call(get)).status).toBe(status);
      await node.close();
    }
  });

  test("is removed by a sign-out", async () => {
    const response = await server.call({ method: "DELETE", path: "/ui/session" });
    expect(response.status).toBe(204);
    expect(response.headers["set-cookie"]?.[0]).toMatch(/^redrive_session=; Path=\/; Max-Age=0;/u);
  });
});

test("a service without keys needs no session", async () => {
  const open = await openTestServer();
  const response = await open.call({ path: "/ui/session", body: { key: "x" } });
  expect(response.status).toBe(200);
  expect(response.json).toMatchObject({ tenantId: "default", expiresAt: null });
  expect(response.headers["set-cookie"]).toBeUndefined();
  await open.close();
});
