/** Tests of `GET /events`: filters, tenants, resuming, slow readers and revoked keys, on a real port. */
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { setImmediate } from "node:timers/promises";
import { virtualClock } from "@redrive/core";
import { createClient, type ServiceEvent } from "@redrive/service/client";
import { createKey, memoryKeyStore, type Scope } from "@redrive/service/http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map((_, at) => (drawn++ * 11 + at * 5) % 256));
};
const keys = memoryKeyStore();
function keyFor(tenantId: string, ...scopes: Scope[]): string {
  const { key, record } = createKey(fill, { tenantId, scopes, now: 0 });
  keys.add(record);
  return key;
}

const acme = keyFor("acme", "admin");
const other = keyFor("other", "admin");
const operator = keyFor("default", "tasks:read");
const creator = keyFor("acme", "tasks:create");
let server: TestServer;

beforeAll(async () => {
  server = await openTestServer({ keys });
});
afterAll(() => server.close());

const clientOf = (apiKey: string) => createClient({ url: server.url, apiKey });

/** Reads events in the background. `next(n)` resolves with the next n events. */
function follow(apiKey: string, query: Parameters<ReturnType<typeof clientOf>["events"]>[0] = {}) {
  const stop = new AbortController();
  const stream = clientOf(apiKey).events({ ...query, signal: stop.signal });
  const raw = async (): Promise<ServiceEvent> => {
    const { value, done } = await stream.next();
    if (done) throw new Error("the stream ended");
    return value;
  };
  return {
    raw,
    stop: () => stop.abort(),
    async next(count: number) {
      const found: Extract<ServiceEvent, { kind: "event" }>["event"][] = [];
      while (found.length < count) {
        const one = await raw();
        if (one.kind === "event") found.push(one.event);
      }
      return found;
    },
  };
}

async function create(apiKey: string, change: object = {}) {
  const policy = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 };
  const task = { targetUrl: server.target.url, policy, ...change };
  const { taskId } = await clientOf(apiKey).createTask(task);
  return taskId;
}

describe("a stream of events", () => {
  test("has everything that happens to a task, in order, with its labels", async () => {
    const reader = follow(acme);
    expect((await reader.raw()).kind).toBe("position");
    server.target.statuses = [503, 200];
    const taskId = await create(acme, { labels: { team: "billing" }, destination: "shop" });
    const events = await reader.next(5);
    expect(events.map(({ type }) => type)).toEqual([
      "task.created",
      "attempt.started",
      "attempt.failed",
      "attempt.started",
      "task.succeeded",
    ]);
    for (const event of events) {
      expect(event).toMatchObject({ taskId, tenantId: "acme", destination: "shop" });
      expect(event.labels).toEqual({ team: "billing" });
    }
    const numbers = events.map(({ id }) => Number(id.slice(id.lastIndexOf("-") + 1)));
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    reader.stop();
  });

  test.each([
    ["type", { type: "task.succeeded" }, { labels: { a: "b" } }],
    ["the first part of the type", { type: "destination,task.succeeded" }, { labels: { a: "b" } }],
    ["destination", { destination: "wanted", type: "task.succeeded" }, { destination: "wanted" }],
    ["label", { label: "a=x=y", type: "task.succeeded" }, { labels: { a: "x=y" } }],
  ])("is filtered by %s", async (_, query, change) => {
    const reader = follow(acme, query);
    await reader.raw();
    await create(acme, { destination: "unwanted", labels: { a: "c" } });
    const ended = endings(server.redrive, 1);
    const taskId = await create(acme, change);
    await ended;
    const wantsAll = !("label" in query || "destination" in query);
    const found = await reader.next(wantsAll ? 2 : 1);
    expect(found.every(({ type }) => type === "task.succeeded")).toBe(true);
    expect(found.at(-1)?.taskId).toBe(taskId);
    reader.stop();
  });

  test("is filtered by task, and a cancel has its destination", async () => {
    const scheduledAt = Date.now() + 60_000;
    const taskId = await create(acme, { scheduledAt, destination: "later", labels: { x: "1" } });
    const reader = follow(acme, { taskId });
    await reader.raw();
    await create(acme);
    await clientOf(acme).cancelTask(taskId);
    const [event] = await reader.next(1);
    expect(event).toMatchObject({ type: "task.cancelled", taskId, destination: "later" });
    expect(event?.labels).toEqual({ x: "1" });
    reader.stop();
  });

  test("never shows events of other tenants, and events of the node only to the operator", async () => {
    const [mine, operators] = [follow(acme), follow(operator)];
    await Promise.all([mine.raw(), operators.raw()]);
    await create(other);
    server.redrive.events.emit(Date.now(), { type: "clock.synced" });
    const taskId = await create(acme);
    const [first] = await mine.next(1);
    expect(first).toMatchObject({ type: "task.created", taskId });
    expect((await operators.next(1))[0]?.type).toBe("clock.synced");
    mine.stop();
    operators.stop();
  });

  test("needs the scope tasks:read", async () => {
    await expect(follow(creator).raw()).rejects.toThrow("lacks the scope tasks:read");
    const bad = { method: "GET", path: "/events?typo=1" };
    const headers = { authorization: `Bearer ${acme}` };
    expect((await server.call({ ...bad, headers })).status).toBe(400);
    expect((await server.call({ ...bad, path: "/events" })).status).toBe(401);
  });
});

describe("a reader that reconnects", () => {
  test("gets exactly the events that it missed", async () => {
    const before = follow(acme);
    const { id } = await before.raw();
    before.stop();
    const ended = endings(server.redrive, 2);
    const missed = [await create(acme), await create(acme)];
    await ended;
    const after = follow(acme, { lastEventId: id, type: "task" });
    const found = await after.next(4);
    const created = found.filter(({ type }) => type === "task.created");
    expect(created.map(({ taskId }) => taskId)).toEqual(missed);
    after.stop();
  });

  test("may continue from a position without an event, in the header that browsers send", async () => {
    const id = server.redrive.events.idOf(server.redrive.events.latest);
    const taskId = await create(acme);
    const response = await open({ authorization: `Bearer ${acme}`, "last-event-id": id });
    const text = await readUntil(response, "task.created");
    expect(text).toContain(taskId);
    expect(text).not.toContain("event: reset");
    expect(response.headers).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
    });
    response.destroy();
  });

  test.each(["another-node-17", "x", "", `${"y".repeat(150)}-3`])(
    "gets a reset for the unknown id %j, and then new events",
    async (lastEventId) => {
      const reader = follow(acme, { lastEventId, type: "task.created" });
      // An empty id is none.
      expect((await reader.raw()).kind).toBe(lastEventId === "" ? "position" : "reset");
      const taskId = await create(acme);
      expect((await reader.next(1))[0]?.taskId).toBe(taskId);
      reader.stop();
    },
  );
});

describe("a slow reader", () => {
  test("needs no memory, and gets a reset when the ring has moved past it", async () => {
    const response = await open({ authorization: `Bearer ${operator}` });
    response.pause();
    const { events } = server.redrive;
    const reason = "x".repeat(2000);
    const before = process.memoryUsage().arrayBuffers;
    // Far more than the buffers of the two sockets can take.
    for (let turn = 0; turn < 250; turn++) {
      for (let n = 0; n < 100; n++) events.emit(turn, { type: "store.failed", reason });
      await setImmediate();
    }
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024);
    const text = await readUntil(response, '"reason":"too-slow"');
    expect(text).toContain(`id: ${events.idOf(events.latest)}\nevent: reset`);
    response.destroy();
  });
});

describe("a stream that lasts", () => {
  test("gets a heartbeat with its position when nothing happens, and ends with its key", async () => {
    const clock = virtualClock(0);
    const lasting = await openTestServer({ keys, serverClock: clock });
    const { key, record } = createKey(fill, { tenantId: "acme", scopes: ["tasks:read"], now: 0 });
    keys.add(record);
    const response = await open({ authorization: `Bearer ${key}` }, lasting.port);
    await readUntil(response, "id: ");
    const heartbeat = readUntil(response, ": heartbeat");
    await clock.advance(14_000);
    expect(await heartbeat).toMatch(/: heartbeat\nid: \S+-0\n\n/u);
    const ended = once(response, "end");
    response.resume();
    keys.revoke(record.keyId);
    await clock.advance(2000);
    await ended;
    await lasting.close();
  });

  test("ends when the server closes, so that a stop does not wait for it", async () => {
    const closing = await openTestServer();
    const response = await open({}, closing.port);
    const ended = once(response, "end");
    response.resume();
    await closing.close();
    await ended;
  });
});

async function open(
  headers: Readonly<Record<string, string>>,
  port = server.port,
): Promise<IncomingMessage> {
  const [response] = await once(
    get({ port, host: "127.0.0.1", path: "/events", headers }),
    "response",
  );
  return response as IncomingMessage;
}

/** What arrives up to the given text. */
function readUntil(response: IncomingMessage, wanted: string): Promise<string> {
  let text = "";
  return new Promise((resolve, reject) => {
    const onData = (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (!text.includes(wanted)) return;
      response.off("data", onData).pause();
      resolve(text);
    };
    response.on("data", onData).once("error", reject);
    response.once("end", () => reject(new Error(`ended after ${text.length} characters`)));
    response.resume();
  });
}
