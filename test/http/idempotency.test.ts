/** Tests of idempotency: one key is one task, in spite of races and crashes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive, memoryStore, type Store } from "@redrive/service";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-http-"));
let server: TestServer;
afterEach(() => server.close());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const create = (change: object = {}, headers: Record<string, string> = {}) =>
  server.call({
    body: { targetUrl: server.target.url, policy: { maxAttempts: 1 }, ...change },
    headers,
  });

describe.each([["memory:"], ["sqlite"]])("on %s", (kind) => {
  const store = () => (kind === "memory:" ? kind : `sqlite:${join(folder, `${Math.random()}.db`)}`);

  test("I16, row 44: 100 concurrent creates with one key create one task", async () => {
    server = await openTestServer({ store: store() });
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => create({ body: "x" }, { "idempotency-key": "race" })),
    );
    expect(new Set(answers.map(({ json }) => json.taskId)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    const replayed = answers.filter(({ status }) => status === 200);
    expect(replayed).toHaveLength(99);
    expect(replayed.every(({ headers }) => headers["idempotent-replayed"] === "true")).toBe(true);
    const { json } = await server.call({ method: "GET", path: "/retry-tasks?idempotencyKey=race" });
    expect(json.tasks).toHaveLength(1);
    const metrics = await server.call({ method: "GET", path: "/metrics" });
    expect(metrics.text).toContain("retry_duplicates_total 99");
  });

  test("I16, row 45: the key with another body, header or policy is rejected with 422", async () => {
    server = await openTestServer({ store: store() });
    const key = { idempotencyKey: "same" };
    expect((await create({ ...key, body: "a" })).status).toBe(202);
    for (const change of [
      { body: "b" },
      { body: "a", headers: { "x-a": "1" } },
      { body: "a", policy: { maxAttempts: 2 } },
      { body: "a", method: "PUT" },
    ]) {
      const { status, json } = await create({ ...key, ...change });
      expect([status, json.code]).toEqual([422, "IDEMPOTENCY_CONFLICT"]);
    }
  });
});

test("rows 48, 49: quotes and blanks around a key do not count, its case does", async () => {
  server = await openTestServer();
  const header = (key: string) => create({}, { "idempotency-key": key });
  const first = (await header('"abc"')).json.taskId;
  expect((await header("abc")).json.taskId).toBe(first);
  expect((await header(" abc  ")).json.taskId).toBe(first);
  expect((await create({ idempotencyKey: "abc" })).json.taskId).toBe(first);
  expect((await header("ABC")).json.taskId).not.toBe(first);
});

test("row 46: an unfinished upload does not take the key", async () => {
  server = await openTestServer();
  const body = JSON.stringify({
    targetUrl: server.target.url,
    idempotencyKey: "slow",
    policy: { maxAttempts: 1 },
  });
  const unfinished = server.rawCall(
    `POST /retry-tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`,
  );
  const { status } = await create({ idempotencyKey: "slow" });
  expect(status).toBe(202);
  await server.close();
  await unfinished;
  server = await openTestServer();
});

test("I3: a store error is not a 2xx, and a retry with the key finds one task", async () => {
  const inner = memoryStore();
  let isBroken = false;
  const store: Store = {
    ...inner,
    // The commit succeeds, but its result is lost.
    async commit(batch) {
      const result = await inner.commit(batch);
      if (isBroken && batch.creates.length > 0) throw new Error("connection lost at 10.1.2.3");
      return result;
    },
  };
  server = await openTestServer({ store });
  await create();
  isBroken = true;
  const { status, headers, text } = await create({ idempotencyKey: "unknown" });
  expect(status).toBe(503);
  expect(headers["retry-after"]).toBe("1");
  expect(text).not.toContain("10.1.2.3");
  isBroken = false;
  expect((await create({ idempotencyKey: "unknown" })).status).toBe(200);
  const { json } = await server.call({
    method: "GET",
    path: "/retry-tasks?idempotencyKey=unknown",
  });
  expect(json.tasks).toHaveLength(1);
});

test("I17: a key belongs to its tenant", async () => {
  server = await openTestServer();
  const other = await createRedrive({ store: "memory:" });
  const input = { targetUrl: server.target.url, idempotencyKey: "mine" };
  const [mine, theirs] = await Promise.all([other.enqueue(input, "a"), other.enqueue(input, "b")]);
  expect(mine.taskId).not.toBe(theirs.taskId);
  await other.stop(0);
});

test("an Idempotency-Key on a batch is refused, and its tasks are not created", async () => {
  server = await openTestServer();
  const path = "/retry-tasks/batch";
  const body = [{ targetUrl: server.target.url, idempotencyKey: "one" }];
  for (const key of ["batch-1", ""]) {
    const { status, json } = await server.call({ path, body, headers: { "idempotency-key": key } });
    expect([status, json.code]).toEqual([400, "INVALID_ARGUMENT"]);
    expect(json.errors[0].field).toBe("idempotencyKey");
    expect(json.detail).toContain("give each task its own idempotencyKey");
  }
  expect((await server.call({ method: "GET", path: "/retry-tasks" })).json.tasks).toEqual([]);
  expect((await server.call({ path, body })).json.accepted).toBe(1);
});
