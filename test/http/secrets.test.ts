/**
 * Tests that secrets appear in no log, metric, response or error and, with a key, in no file of the
 * store (invariant I43).
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-secrets-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let server: TestServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const SECRET = "s3cr3t-c4n4ry";
const key = () => randomBytes(32).toString("base64");

/** Every byte on disk of a store, including its log. */
const onDisk = (name: string) =>
  readdirSync(folder)
    .filter((file) => file.startsWith(name))
    .map((file) => readFileSync(join(folder, file), "latin1"))
    .join("\n");

const storeOf = (name: string) => `sqlite:${join(folder, name)}`;

test("a sealed header reaches its target, also on a redrive, and is stored nowhere in plain text", async () => {
  const logs: string[] = [];
  const logger = { level: "trace", stream: { write: (line: string) => void logs.push(line) } };
  server = await openTestServer({ store: storeOf("sealed.db"), encryptionKey: key(), logger });
  const { call, target, redrive } = server;
  target.statuses = [400];
  const done = endings(redrive, 1);
  const headers = { authorization: `Bearer ${SECRET}`, "x-own": SECRET, accept: "text/plain" };
  const body = {
    targetUrl: target.url,
    headers,
    idempotencyKey: "k",
    policy: { maxAttempts: 1 },
  };
  const { taskId } = (await call({ body })).json;
  await done;
  expect((await call({ body })).headers["idempotent-replayed"]).toBe("true");
  const other = { ...body, headers: { ...headers, "x-own": "other" } };
  expect((await call({ body: other })).json.code).toBe("IDEMPOTENCY_CONFLICT");
  const again = endings(redrive, 1);
  await call({ path: "/redrives", body: { taskIds: [taskId] } });
  await again;
  expect(target.received.map(({ headers: sent }) => sent.authorization)).toEqual([
    `Bearer ${SECRET}`,
    `Bearer ${SECRET}`,
  ]);
  const get = async (path: string) => (await call({ method: "GET", path })).text;
  const told = [
    await get(`/retry-tasks/${taskId}?include=explain,body`),
    await get(`/retry-tasks/${taskId}/attempts?include=body`),
    await get("/retry-tasks"),
    await get("/metrics"),
    (await call({ body: { ...body, headers: { "x-own": `${SECRET}\n` } } })).text,
    (await call({ body: `{"headers":{"a":"${SECRET}"` })).text,
    ...logs,
  ];
  for (const text of told) expect(text).not.toContain(SECRET);
  expect(told[0]).toContain('"authorization":"***"');
  expect(onDisk("sealed.db")).toContain(taskId);
  expect(onDisk("sealed.db")).not.toContain(SECRET);
});

test("headers that a target sends back do not appear in the log", async () => {
  const echo = createServer((request, response) => {
    const { authorization, "x-own": own } = request.headers;
    response.setHeader("x-request-id", String(own));
    response.writeHead(400).end(JSON.stringify({ authorization, own }));
  }).listen(0, "127.0.0.1");
  await once(echo, "listening");
  const targetUrl = `http://127.0.0.1:${(echo.address() as AddressInfo).port}/`;
  server = await openTestServer({ store: storeOf("echo.db"), encryptionKey: key() });
  const done = endings(server.redrive, 1);
  const headers = { authorization: `Bearer ${SECRET}`, "x-own": SECRET };
  const { taskId } = (await server.call({ body: { targetUrl, headers } })).json;
  await done;
  const path = `/retry-tasks/${taskId}/attempts?include=body`;
  const { attempts } = (await server.call({ method: "GET", path })).json;
  expect(attempts[0].responseBody).toBe('{"authorization":"***","own":"***"}');
  expect(onDisk("echo.db")).not.toContain(SECRET);
  echo.close();
});

test("without a key the header is found: the test above searches the right place", async () => {
  server = await openTestServer({ store: storeOf("plain.db") });
  const done = endings(server.redrive, 1);
  await server.call({ body: { targetUrl: server.target.url, headers: { "x-own": SECRET } } });
  await done;
  expect(onDisk("plain.db")).toContain(SECRET);
});

test("a task whose encryption key is missing waits without using an attempt, and nothing is sent", async () => {
  const [old, fresh] = [key(), key()];
  const store = storeOf("rotated.db");
  const before = await createRedrive({ store, encryptionKey: old });
  const scheduledAt = before.now() + 3_600_000;
  const task = { targetUrl: "http://127.0.0.1:7999/", headers: { "x-own": SECRET }, scheduledAt };
  const { taskId } = await before.enqueue(task);
  await before.stop();
  await (await createRedrive({ store, encryptionKey: `${fresh},${old}` })).stop();
  server = await openTestServer({ store, encryptionKey: fresh });
  const { call, redrive } = server;
  const given = new Promise<void>((resolve) => {
    redrive.onEvent(({ type }) => type === "secret.unavailable" && resolve());
  });
  await call({ path: `/retry-tasks/${taskId}/retry` });
  await given;
  const path = `/retry-tasks/${taskId}?include=explain`;
  const read = async () => (await call({ method: "GET", path })).json;
  await expect.poll(async () => (await read()).lastError).toContain("REDRIVE_ENCRYPTION_KEY");
  const waiting = await read();
  expect(waiting).toMatchObject({ status: "PENDING", reason: null, attemptNumber: 0 });
  expect(waiting.explain).toContain("cannot be decrypted");
  const { text } = await call({ method: "GET", path: "/metrics" });
  expect(text).toMatch(/^retry_secrets_unavailable_total 1$/mu);
});

test("a redrive skips a dead letter whose secret it cannot read, and so does not lose the secret", async () => {
  const [old, fresh] = [key(), key()];
  const store = storeOf("skipped.db");
  server = await openTestServer({ store, encryptionKey: old });
  const { target } = server;
  target.statuses = [400];
  const done = endings(server.redrive, 1);
  const body = { targetUrl: target.url, headers: { "x-own": SECRET } };
  const { taskId } = (await server.call({ body })).json;
  await done;
  await server.close();
  await (await createRedrive({ store, encryptionKey: `${fresh},${old}` })).stop();
  server = await openTestServer({ store, encryptionKey: fresh });
  const { call } = server;
  const { redriveId } = (await call({ path: "/redrives", body: { taskIds: [taskId] } })).json;
  const read = async () => (await call({ method: "GET", path: `/redrives/${redriveId}` })).json;
  await expect.poll(async () => (await read()).status).toBe("DONE");
  const skips = [{ reason: "secret-unavailable", count: 1, taskIds: [taskId] }];
  expect(await read()).toMatchObject({ redriven: 0, skips });
});

test("a wrong or missing key is rejected at the start, and the file is unlocked", async () => {
  const store = storeOf("checked.db");
  const right = key();
  await (await createRedrive({ store, encryptionKey: right })).stop();
  await expect(createRedrive({ store, encryptionKey: key() })).rejects.toThrow(/not the key/);
  await expect(createRedrive({ store })).rejects.toThrow(
    /set encryptionKey \(REDRIVE_ENCRYPTION_KEY\)/,
  );
  await expect(createRedrive({ store, encryptionKey: "short" })).rejects.toThrow(/openssl/);
  await (await createRedrive({ store, encryptionKey: right })).stop();
});
