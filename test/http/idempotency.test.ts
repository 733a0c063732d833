/** Idempotency: one key is one task, whoever races, whatever crashes in between. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive, memoryStore, type Store } from "@redrive/service";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { type Front, openFront } from "./test-server.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-http-"));
let front: Front;
afterEach(() => front.close());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const create = (change: object = {}, headers: Record<string, string> = {}) =>
  front.call({
    body: { targetUrl: front.target.url, policy: { maxAttempts: 1 }, ...change },
    headers,
  });

describe.each([["memory:"], ["sqlite"]])("on %s", (kind) => {
  const store = () => (kind === "memory:" ? kind : `sqlite:${join(folder, `${Math.random()}.db`)}`);

  test("I16, row 44: 100 racing creates with one key make one task", async () => {
    front = await openFront({ store: store() });
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => create({ body: "x" }, { "idempotency-key": "race" })),
    );
    expect(new Set(answers.map(({ json }) => json.taskId)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    const replayed = answers.filter(({ status }) => status === 200);
    expect(replayed).toHaveLength(99);
    expect(replayed.every(({ headers }) => headers["idempotent-replayed"] === "true")).toBe(true);
    const { json } = await front.call({ method: "GET", path: "/retry-tasks?idempotencyKey=race" });
    expect(json.tasks).toHaveLength(1);
    const metrics = await front.call({ method: "GET", path: "/metrics" });
    expect(metrics.text).toContain("retry_duplicates_total 99");
  });

  test("I16, row 45: the key with another body, header or policy is refused with 422", async () => {
    front = await openFront({ store: store() });
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
  front = await openFront();
  const header = (key: string) => create({}, { "idempotency-key": key });
  const first = (await header('"abc"')).json.taskId;
  expect((await header("abc")).json.taskId).toBe(first);
  expect((await header(" abc  ")).json.taskId).toBe(first);
  expect((await create({ idempotencyKey: "abc" })).json.taskId).toBe(first);
  expect((await header("ABC")).json.taskId).not.toBe(first);
});

test("row 46: an unfinished upload takes no key, so nobody waits for it", async () => {
  front = await openFront();
  const body = JSON.stringify({
    targetUrl: front.target.url,
    idempotencyKey: "slow",
    policy: { maxAttempts: 1 },
  });
  const unfinished = front.rawCall(
    `POST /retry-tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`,
  );
  const { status } = await create({ idempotencyKey: "slow" });
  expect(status).toBe(202);
  await front.close();
  await unfinished;
  front = await openFront();
});

test("I3: a store error is no 2xx, and asking again with the key finds one task", async () => {
  const inner = memoryStore();
  let isBroken = false;
  const store: Store = {
    ...inner,
    // The commit happens, and its answer is lost.
    async commit(batch) {
      const result = await inner.commit(batch);
      if (isBroken && batch.creates.length > 0) throw new Error("connection lost at 10.1.2.3");
      return result;
    },
  };
  front = await openFront({ store });
  await create();
  isBroken = true;
  const { status, headers, text } = await create({ idempotencyKey: "unknown" });
  expect(status).toBe(503);
  expect(headers["retry-after"]).toBe("1");
  expect(text).not.toContain("10.1.2.3");
  isBroken = false;
  expect((await create({ idempotencyKey: "unknown" })).status).toBe(200);
  const { json } = await front.call({ method: "GET", path: "/retry-tasks?idempotencyKey=unknown" });
  expect(json.tasks).toHaveLength(1);
});

test("I17: a key belongs to its tenant", async () => {
  front = await openFront();
  const other = await createRedrive({ store: "memory:" });
  const input = { targetUrl: front.target.url, idempotencyKey: "mine" };
  const [mine, theirs] = await Promise.all([other.enqueue(input, "a"), other.enqueue(input, "b")]);
  expect(mine.taskId).not.toBe(theirs.taskId);
  await other.stop(0);
});
