/**
 * Tests of signed requests, over HTTP: `standardwebhooks`, the library that receivers use, verifies what
 * the target received.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, expect, test } from "vitest";
import { endings, openTestServer, type Received, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-signatures-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let server: TestServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const newSecret = () => `whsec_${randomBytes(32).toString("base64")}`;
const encryptionKey = randomBytes(32).toString("base64");
const path = "/destinations/hooks";

async function openSigned(signingSecrets: readonly string[], name: string) {
  const logs: string[] = [];
  const logger = { level: "trace", stream: { write: (line: string) => void logs.push(line) } };
  const store = `sqlite:${join(folder, name)}`;
  server = await openTestServer({ store, encryptionKey, logger });
  const stored = await server.call({ method: "PUT", path, body: { signingSecrets } });
  return { ...server, stored, logs };
}

/** Sends a task, and waits for its end. */
async function deliver({ call, redrive, target }: TestServer, statuses: number[] = []) {
  target.statuses = statuses;
  const done = endings(redrive, 1);
  const policy = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1 };
  const body = { targetUrl: target.url, destination: "hooks", json: { order: 42 }, policy };
  const { json } = await call({ body });
  await done;
  return json.taskId as string;
}

const isSignedBy = (secret: string, { headers, body }: Received) => {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
    return true;
  } catch {
    return false;
  }
};

test("each attempt is signed, with the same id on every attempt", async () => {
  const secret = newSecret();
  const signed = await openSigned([secret], "attempts.db");
  const taskId = await deliver(signed, [503]);
  const { received } = signed.target;
  expect(received.map((one) => isSignedBy(secret, one))).toEqual([true, true]);
  expect(received.map((one) => isSignedBy(newSecret(), one))).toEqual([false, false]);
  expect(received.map(({ headers }) => headers["webhook-id"])).toEqual([taskId, taskId]);
});

test.each([
  ["a short body", { json: { order: 42 } }],
  ["a body in the blob store", { json: { text: "x".repeat(100_000) } }],
])("a redrive of a redrive sends the id of the first message, with %s", async (_, content) => {
  const secret = newSecret();
  const signed = await openSigned([secret], `redrives-${JSON.stringify(content).length}.db`);
  const { call, redrive, target } = signed;
  target.statuses = [400, 400];
  let done = endings(redrive, 1);
  const body = { targetUrl: target.url, destination: "hooks", ...content };
  const first = (await call({ body })).json.taskId as string;
  for (let taskId = first, redriven = 0; redriven < 2; redriven++) {
    await done;
    done = endings(redrive, 1);
    await call({ path: "/redrives", body: { taskIds: [taskId], ratePerSecond: 1000 } });
    await done;
    taskId = (await call({ method: "GET", path: `/retry-tasks/${taskId}` })).json.redrivenTo;
  }
  const ids = target.received.map(({ headers }) => headers["webhook-id"]);
  expect(ids).toEqual([first, first, first]);
  const tasks = target.received.map(({ headers }) => headers["redrive-task-id"]);
  expect(new Set(tasks).size).toBe(3);
  expect(target.received.map((one) => isSignedBy(secret, one))).toEqual([true, true, true]);
});

test("while secrets rotate, both sign, and a placeholder keeps a stored secret", async () => {
  const [old, next] = [newSecret(), newSecret()];
  const signed = await openSigned([old], "rotation.db");
  const [placeholder] = signed.stored.json.document.signingSecrets;
  await signed.call({ method: "PUT", path, body: { signingSecrets: [next, placeholder] } });
  await deliver(signed);
  const [both] = signed.target.received;
  expect([old, next].map((secret) => both && isSignedBy(secret, both))).toEqual([true, true]);
  const { document } = (await signed.call({ method: "GET", path })).json;
  await signed.call({
    method: "PUT",
    path,
    body: { signingSecrets: document.signingSecrets.slice(0, 1) },
  });
  await deliver(signed);
  const [, last] = signed.target.received;
  expect([old, next].map((secret) => last && isSignedBy(secret, last))).toEqual([false, true]);
});

test("a secret survives a restart, and is shown in no response, log or file", async () => {
  const secret = newSecret();
  const signed = await openSigned([secret], "restart.db");
  const shown = JSON.stringify([
    signed.stored.json,
    (await signed.call({ method: "GET", path })).json,
  ]);
  await signed.close();
  server = await openTestServer({ store: `sqlite:${join(folder, "restart.db")}`, encryptionKey });
  await deliver(server);
  expect(server.target.received.map((one) => isSignedBy(secret, one))).toEqual([true]);
  const files = readdirSync(folder).filter((file) => file.startsWith("restart.db"));
  const bytes = files.map((file) => readFileSync(join(folder, file), "latin1")).join("\n");
  const text = `${shown}\n${signed.logs.join("\n")}\n${bytes}`;
  expect(text).toContain("whsec_***");
  expect(text).not.toContain(secret.slice("whsec_".length));
});

test("without the encryption key, a secret is refused, and the message says what to set", async () => {
  server = await openTestServer();
  const response = await server.call({
    method: "PUT",
    path,
    body: { signingSecrets: [newSecret()] },
  });
  expect(response.status).toBe(400);
  expect(response.json).toMatchObject({ code: "INVALID_DESTINATION" });
  expect(response.json.detail).toContain("REDRIVE_ENCRYPTION_KEY");
});

test.each([
  ["a malformed secret", ["whsec_short"], "24 to 64 bytes"],
  ["a list of three", [newSecret(), newSecret(), newSecret()], "at most 2"],
  ["an unknown placeholder", ["whsec_***00000000"], "no stored secret"],
  ["a text", "whsec_x", "a list"],
])("%s is refused, without a secret in the message", async (_, signingSecrets, message) => {
  server = await openTestServer({ encryptionKey });
  const response = await server.call({ method: "PUT", path, body: { signingSecrets } });
  expect(response.status).toBe(400);
  expect(response.json.detail).toContain(message);
  for (const secret of [signingSecrets].flat()) {
    if (secret.length > 20) expect(response.text).not.toContain(secret);
  }
});

test("the embedded API returns placeholders too", async () => {
  server = await openTestServer({ encryptionKey });
  const { redrive } = server;
  const rows = [
    await redrive.configure("hooks", { signingSecrets: [newSecret()] }),
    await redrive.pause("hooks"),
    await redrive.resume("hooks"),
    await redrive.enableTarget("hooks", server.target.url),
  ];
  for (const { document } of rows) {
    expect(document).toMatch(/^\{"signingSecrets":\["whsec_\*{3}[0-9a-f]{8}"\]\}$/u);
  }
});

test("nothing is sent unsigned if a secret cannot be decrypted", async () => {
  const signed = await openSigned([newSecret()], "lost.db");
  await signed.redrive.configure("other", { signingSecrets: [newSecret()] });
  await signed.close();
  // A stored secret is bound to its destination, so that of another one cannot be decrypted.
  const database = new DatabaseSync(join(folder, "lost.db"));
  const other = "(SELECT document FROM destinations WHERE name = 'other')";
  const { changes } = database
    .prepare(`UPDATE destinations SET document = ${other} WHERE name = 'hooks'`)
    .run();
  database.close();
  expect(changes).toBe(1);
  server = await openTestServer({ store: `sqlite:${join(folder, "lost.db")}`, encryptionKey });
  const { call, redrive, target } = server;
  const given = new Promise<void>((resolve) => {
    redrive.onEvent(({ type }) => type === "secret.unavailable" && resolve());
  });
  const body = { targetUrl: target.url, destination: "hooks", json: {} };
  const { taskId } = (await call({ body })).json;
  await given;
  const read = async () => (await call({ method: "GET", path: `/retry-tasks/${taskId}` })).json;
  await expect.poll(async () => (await read()).lastError).toContain("signing secret");
  expect(await read()).toMatchObject({ status: "PENDING", attemptNumber: 0 });
  expect(target.received).toEqual([]);
});
