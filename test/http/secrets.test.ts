/** I43: secrets are in no log, metric, answer or error, and with a key in no file of the store. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, type Front, openFront } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-secrets-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let front: Front | undefined;
afterEach(async () => {
  await front?.close();
  front = undefined;
});

const SECRET = "s3cr3t-c4n4ry";
const key = () => randomBytes(32).toString("base64");

/** Every byte that is on disk beside a store, its log included. */
const onDisk = (name: string) =>
  readdirSync(folder)
    .filter((file) => file.startsWith(name))
    .map((file) => readFileSync(join(folder, file), "latin1"))
    .join("\n");

const storeOf = (name: string) => `sqlite:${join(folder, name)}`;

test("a sealed header reaches its target, on a redrive too, and rests nowhere in clear", async () => {
  const logs: string[] = [];
  const logger = { level: "trace", stream: { write: (line: string) => void logs.push(line) } };
  front = await openFront({ store: storeOf("sealed.db"), encryptionKey: key(), logger });
  const { call, target, redrive } = front;
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

test("a target that sends our headers back does not make the log a place to find them", async () => {
  const echo = createServer((request, response) => {
    const { authorization, "x-own": own } = request.headers;
    response.setHeader("x-request-id", String(own));
    response.writeHead(400).end(JSON.stringify({ authorization, own }));
  }).listen(0, "127.0.0.1");
  await once(echo, "listening");
  const targetUrl = `http://127.0.0.1:${(echo.address() as AddressInfo).port}/`;
  front = await openFront({ store: storeOf("echo.db"), encryptionKey: key() });
  const done = endings(front.redrive, 1);
  const headers = { authorization: `Bearer ${SECRET}`, "x-own": SECRET };
  const { taskId } = (await front.call({ body: { targetUrl, headers } })).json;
  await done;
  const path = `/retry-tasks/${taskId}/attempts?include=body`;
  const { attempts } = (await front.call({ method: "GET", path })).json;
  expect(attempts[0].responseBody).toBe('{"authorization":"***","own":"***"}');
  expect(onDisk("echo.db")).not.toContain(SECRET);
  echo.close();
});

test("without a key the header is there to be found: the test above looks where it would be", async () => {
  front = await openFront({ store: storeOf("plain.db") });
  const done = endings(front.redrive, 1);
  await front.call({ body: { targetUrl: front.target.url, headers: { "x-own": SECRET } } });
  await done;
  expect(onDisk("plain.db")).toContain(SECRET);
});

test("a task whose key is gone ends with secret-unavailable, and nothing is sent", async () => {
  const [old, fresh] = [key(), key()];
  const store = storeOf("rotated.db");
  const before = await createRedrive({ store, encryptionKey: old });
  const scheduledAt = before.now() + 3_600_000;
  const task = { targetUrl: "http://127.0.0.1:7999/", headers: { "x-own": SECRET }, scheduledAt };
  const { taskId } = await before.enqueue(task);
  await before.stop();
  await (await createRedrive({ store, encryptionKey: `${fresh},${old}` })).stop();
  front = await openFront({ store, encryptionKey: fresh });
  const done = endings(front.redrive, 1);
  await front.call({ path: `/retry-tasks/${taskId}/retry` });
  await done;
  const { json } = await front.call({ method: "GET", path: `/retry-tasks/${taskId}` });
  expect(json).toMatchObject({ status: "EXHAUSTED", reason: "secret-unavailable" });
  expect(json.lastError).toContain("REDRIVE_ENCRYPTION_KEY");
});

test("a wrong key and a missing one are refused at the start, and leave the file free", async () => {
  const store = storeOf("checked.db");
  const right = key();
  await (await createRedrive({ store, encryptionKey: right })).stop();
  await expect(createRedrive({ store, encryptionKey: key() })).rejects.toThrow(/not the key/);
  await expect(createRedrive({ store })).rejects.toThrow(/set REDRIVE_ENCRYPTION_KEY/);
  await expect(createRedrive({ store, encryptionKey: "short" })).rejects.toThrow(/openssl/);
  await (await createRedrive({ store, encryptionKey: right })).stop();
});
