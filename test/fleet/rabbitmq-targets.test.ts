/**
 * Tests of tasks whose target is RabbitMQ, with a real RabbitMQ: what consumers get, refusals, resource
 * alarms, a broker that hangs or crashes, and kill -9 of the service.
 */
// needs: rabbitmq, build
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Options } from "amqplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { BridgeWorld } from "../consume/bridge-world.ts";
import { QUORUM, RabbitWorld } from "../consume/rabbit-world.ts";
import { until } from "../consume/received.ts";
import { loseNothingInKills } from "../faults/broker-kills.ts";
import { ADMIN, type BodyServer, bytesOf, openBodyServer } from "../http/body-server.ts";
import { endings } from "../http/test-server.ts";

let world: RabbitWorld;
let bodies: BodyServer;
let host = "";
beforeAll(async () => {
  [world, bodies] = await Promise.all([RabbitWorld.start(), openBodyServer(300_000)]);
  ({ host } = new URL(world.server.url));
});
afterAll(async () => {
  await bodies.close();
  await world.stop();
});

let queue = "";
let count = 0;
beforeEach(() => {
  queue = `orders-${count++}`;
});

const assertQueue = (options: Options.AssertQueue = QUORUM) =>
  world.channel.assertQueue(queue, options);

const loginOf = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
});

const PATIENT = { maxAttempts: 1000, initialDelayMs: 20, maxDelayMs: 50, totalBudgetMs: 600_000 };

async function create(task: object): Promise<string> {
  const targetUrl = `amqp://${host}/?queue=${queue}`;
  const body = { targetUrl, policyId: "quick", destination: queue, ...task };
  const response = await bodies.as(ADMIN, { body });
  expect(response.json).toMatchObject({ taskId: expect.any(String) });
  return response.json.taskId;
}

/** Creates a task, waits for its end, and returns it with its attempts. */
async function run(task: object) {
  const ended = endings(bodies.server.redrive, 1);
  const taskId = await create(task);
  await ended;
  const path = `/retry-tasks/${taskId}/attempts?include=body`;
  const { attempts } = (await bodies.as(ADMIN, { method: "GET", path })).json;
  return { taskId, task: await bodies.view(taskId), attempts };
}

/** Takes all messages of the queue. */
async function messageIds(): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const message = await world.channel.get(queue, { noAck: true });
    if (message === false) return ids;
    ids.push(message.properties.messageId);
  }
}

async function nextMessage(from = queue) {
  const message = await world.channel.get(from, { noAck: true });
  if (message === false) throw new Error(`queue ${from} is empty`);
  return message;
}

describe("a task whose target is RabbitMQ", () => {
  test("becomes a persistent message with its key as id, and its headers", async () => {
    await assertQueue();
    const { taskId, task, attempts } = await run({
      bodyBase64: Buffer.from([0, 255, 206]).toString("base64"),
      idempotencyKey: `key-${queue}`,
      headers: { "content-type": "application/x-order", "X-Shop": "berlin" },
    });
    expect(task).toMatchObject({ status: "SUCCEEDED", lastStatus: 0 });
    expect(attempts).toMatchObject([{ outcome: "success", responseStatus: 0 }]);
    const { content, properties, fields } = await nextMessage();
    expect(content).toEqual(Buffer.from([0, 255, 206]));
    expect(fields).toMatchObject({ exchange: "", routingKey: queue });
    expect(properties).toMatchObject({
      messageId: `key-${queue}`,
      contentType: "application/x-order",
      deliveryMode: 2,
      headers: {
        "redrive-task-id": taskId,
        "redrive-attempt": "1",
        "redrive-hop": "1",
        "x-request-id": taskId,
        "x-shop": "berlin",
        traceparent: expect.stringMatching(/^00-[\da-f]{32}-[\da-f]{16}-01$/),
      },
    });
    expect(properties.headers).not.toHaveProperty("authorization");
  });

  test("goes through an exchange with a routing key", async () => {
    await assertQueue();
    await world.channel.assertExchange("shop", "topic");
    await world.channel.bindQueue(queue, "shop", "new.*");
    const targetUrl = `amqp://${host}/%2F?exchange=shop&routingKey=new.eu`;
    expect(await run({ targetUrl, json: { order: 1 } })).toMatchObject({
      task: { status: "SUCCEEDED" },
    });
    const { content, fields, properties } = await nextMessage();
    expect([content.toString(), fields.routingKey]).toEqual(['{"order":1}', "new.eu"]);
    expect(properties.contentType).toBe("application/json");
  });

  test("may have a body of several frames", async () => {
    await assertQueue();
    const long = bytesOf(290_000);
    const ended = endings(bodies.server.redrive, 1);
    await bodies.forward(long, { "redrive-target": `amqp://${host}/?queue=${queue}` });
    await ended;
    expect((await nextMessage()).content.equals(long)).toBe(true);
  });

  test.each([
    ["?queue=nowhere", 5, "the broker returned the message, because no queue takes it"],
    ["?exchange=nowhere", 5, "the broker refused the message (404 NOT_FOUND)"],
    ["/nowhere?queue=q", 7, "the broker refused the message (530 NOT_ALLOWED)"],
  ])("to %s is a dead letter", async (place, lastStatus, message) => {
    const { task, attempts } = await run({ targetUrl: `amqp://${host}${place}` });
    expect(task).toMatchObject({ status: "EXHAUSTED", reason: "not-retryable", lastStatus });
    expect(attempts).toHaveLength(1);
    expect(attempts[0].errorMessage).toContain(message);
  });

  test("uses the password in its header, and needs the permission to write", async () => {
    await assertQueue();
    const { server } = world;
    await server.control("add_user", "app", "hunter22");
    await server.control("set_permissions", "app", "^$", "^(amq\\.default)?$", "^$");
    expect(await run({ headers: loginOf("app", "hunter22") })).toMatchObject({
      task: { status: "SUCCEEDED" },
    });
    expect(await run({ headers: loginOf("app", "wrong") })).toMatchObject({
      task: { status: "EXHAUSTED", lastStatus: 16 },
    });
    await world.channel.assertExchange("closed", "fanout");
    const targetUrl = `amqp://${host}/?exchange=closed`;
    const { task, attempts } = await run({ targetUrl, headers: loginOf("app", "hunter22") });
    expect(task).toMatchObject({ status: "EXHAUSTED", lastStatus: 7 });
    expect(JSON.stringify([task, attempts])).not.toContain("hunter22");
  });

  test("is retried while its queue is full, with the same id", async () => {
    await assertQueue({
      durable: true,
      arguments: { "x-max-length": 1, "x-overflow": "reject-publish" },
    });
    await run({});
    const ended = endings(bodies.server.redrive, 1);
    const taskId = await create({ policyId: undefined, policy: PATIENT });
    await until(async () => (await bodies.view(taskId)).lastStatus === 8);
    await nextMessage();
    await ended;
    const { properties } = await nextMessage();
    expect(properties.messageId).toBe(taskId);
    expect(Number(properties.headers?.["redrive-attempt"])).toBeGreaterThan(1);
  });

  test("waits for the end of a memory alarm", async () => {
    await assertQueue();
    const { server } = world;
    await server.control("set_vm_memory_high_watermark", "absolute", "1");
    // RabbitMQ blocks a connection after its first message.
    const once = { policyId: undefined, policy: { maxAttempts: 1, attemptTimeoutMs: 1000 } };
    await until(async () => (await run(once)).task.lastStatus === 8);
    const ended = endings(bodies.server.redrive, 1);
    const taskId = await create({ policyId: undefined, policy: PATIENT });
    await until(async () => (await bodies.view(taskId)).lastStatus === 8);
    await server.control("set_vm_memory_high_watermark", "0.4");
    await ended;
    expect(await bodies.view(taskId)).toMatchObject({ status: "SUCCEEDED" });
    expect(await messageIds()).toContain(taskId);
  });

  test("ends its attempt in time although the broker hangs", async () => {
    await assertQueue();
    await run({});
    world.server.hang();
    const policy = { maxAttempts: 1, attemptTimeoutMs: 400 };
    const { attempts } = await run({ policyId: undefined, policy });
    world.server.resume();
    expect(attempts).toMatchObject([{ outcome: "error", errorClass: "timeout" }]);
    expect(attempts[0].durationMs).toBeGreaterThanOrEqual(400);
    expect(attempts[0].durationMs).toBeLessThan(650);
  });

  test("goes from a queue through the service to another queue, and does not circle forever", async () => {
    const bridges = new BridgeWorld();
    await bridges.start();
    await assertQueue();
    await world.channel.assertQueue("processed", QUORUM);
    const source = { from: world.server.url, queue };
    const to = await bridges.bridge({ ...source, targetUrl: `amqp://${host}/?queue=processed` });
    await world.publish(queue, ["order-1"]);
    await until(async () => (await world.sizeOf("processed")) === 1);
    await to.stop();
    const { content, properties } = await nextMessage("processed");
    expect(content.toString()).toBe("body of order-1");
    expect(properties.messageId).toBe(`${queue}:order-1`);

    const loop = await bridges.bridge({ ...source, targetUrl: `amqp://${host}/?queue=${queue}` });
    await world.publish(queue, ["order-2"]);
    await until(async () => (await world.sizeOf(`${queue}.dead`)) === 1);
    await loop.stop();
    await bridges.stop();
    expect(await world.sizeOf(queue)).toBe(0);
  });
});

test("kill -9 of the service loses no message", { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "redrive-rabbit-kill-"));
  await assertQueue();
  await loseNothingInKills(folder, `amqp://${host}/?queue=${queue}`, 10, messageIds);
  rmSync(folder, { recursive: true, force: true });
});

/** See `rabbitmq-crash.test.ts`. */
const LEADER_S = 6;

test("a crash of the broker loses no message", async () => {
  await assertQueue();
  // Requests in between keep the connection to the service open.
  for (let second = 0; second < LEADER_S; second++) {
    await run({});
    await sleep(1000);
  }
  const total = 200;
  const ended = endings(bodies.server.redrive, total);
  const policy = { ...PATIENT, maxDelayMs: 1000 };
  const task = { targetUrl: `amqp://${host}/?queue=${queue}`, destination: queue, policy };
  const created = await bodies.as(ADMIN, {
    path: "/retry-tasks/batch",
    body: Array.from({ length: total }, () => task),
  });
  const ids = created.json.results.map(({ taskId }: { taskId: string }) => taskId);
  await world.restart();
  await ended;
  const found = new Set(await messageIds());
  expect(ids.filter((id: string) => !found.has(id))).toEqual([]);
});
