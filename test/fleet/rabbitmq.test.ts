/** Tests of the adapter for RabbitMQ, with a real RabbitMQ: also kill -9 and cut connections. */
// needs: rabbitmq, build
import { connect } from "amqplib";
import { NonRetryableError } from "redrive";
import {
  type AmqpConnection,
  consume,
  type RabbitBody,
  type RabbitOptions,
  rabbitmq,
  type Worker,
} from "redrive/consume";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { rabbitContract } from "../consume/broker-contracts.ts";
import { killConsumers } from "../consume/kill.ts";
import { rabbitBridgeTests } from "../consume/rabbit-bridge.ts";
import { QUORUM, RabbitWorld } from "../consume/rabbit-world.ts";
import { gate, until } from "../consume/received.ts";
import { runRecipe } from "../recipes/recipe.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";

let world: RabbitWorld;

beforeAll(async () => {
  world = await RabbitWorld.start();
});

afterEach(() => world.stopWorkers());
afterAll(() => world.stop());

describe("what the adapter relies on", () => {
  rabbitContract(async () => (await connect(world.server.url)) as unknown as AmqpConnection);
});

describe("messages", () => {
  test("are handled and acknowledged", async () => {
    const bodies: string[] = [];
    const seen = world.consumer(
      ({ body }) => void bodies.push(new TextDecoder().decode(body.content)),
    );
    await seen.worker.start();
    await seen.add("a", "b");
    await seen.received.count("handled", 2);
    await seen.worker.stop();
    expect(bodies).toEqual(["body of a", "body of b"]);
    expect(await world.sizeOf(seen.queue)).toBe(0);
  });

  test("that fail come back after a delay, until they are dead letters with their history", async () => {
    const attempts: number[] = [];
    const seen = world.consumer((_, { attempt }) => {
      attempts.push(attempt);
      throw Object.assign(new Error("busy"), { status: 503 });
    });
    await seen.worker.start();
    const properties = {
      messageId: "a",
      contentType: "application/json",
      headers: { color: "red", CC: ["elsewhere"] },
      expiration: "60000",
      userId: "guest",
    };
    world.channel.publish("", seen.queue, Buffer.from([0xff, 0, 1]), properties);
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    expect(attempts).toEqual([1, 2, 3]);
    const dead = await world.channel.get(`${seen.queue}.dead`);
    if (dead === false) throw new Error("there is no dead letter");
    world.channel.ack(dead);
    expect(dead.content).toEqual(Buffer.from([0xff, 0, 1]));
    expect(dead.properties).toMatchObject({
      messageId: "a",
      contentType: "application/json",
      deliveryMode: 2,
      headers: {
        color: "red",
        "x-redrive-reason": "attempts",
        "x-redrive-exchange": "",
        "x-redrive-routing-key": seen.queue,
      },
    });
    expect(dead.properties.headers).not.toHaveProperty("CC");
    expect(JSON.parse(String(dead.properties.headers?.["x-redrive-state"]))).toMatchObject({
      attempts: 3,
      history: [
        { attempt: 1, error: "Error: busy", delayMs: 20 },
        { attempt: 2, delayMs: 40 },
        { attempt: 3 },
      ],
    });
    expect(await world.sizeOf(`${seen.queue}.redrive.20`)).toBe(0);
  });

  test("with a long delay do not block those with a short one", async () => {
    const error = Object.assign(new Error("later"), { status: 503, retryAfterMs: 60_000 });
    const seen = world.consumer(
      ({ id }, { attempt }) => {
        if (attempt === 1) throw id === "slow" ? error : new Error("soon");
      },
      { policy: { initialDelayMs: 20, jitterType: "NONE", totalBudgetMs: 3_600_000 } },
      { tiersMs: [20, 60_000] },
    );
    await seen.worker.start();
    await seen.add("slow", "quick");
    await seen.received.count("handled", 1);
    expect(seen.received.ids("handled")).toEqual(["quick"]);
    expect(await world.sizeOf(`${seen.queue}.redrive.60000`)).toBe(1);
  });

  test("whose handlers run on after their timeout are handled once, and others beside them", async () => {
    const { opened, open } = gate();
    const runs: string[] = [];
    const seen = world.consumer(
      ({ id }) => {
        runs.push(id);
        return id === "slow" ? opened : undefined;
      },
      {
        policy: { maxAttempts: 3, attemptTimeoutMs: 100, initialDelayMs: 1, maxDelayMs: 5 },
        concurrency: 2,
      },
    );
    await seen.worker.start();
    await seen.add("slow");
    await seen.received.count("still-running", 1);
    await seen.add("a", "b", "c");
    await seen.received.count("handled", 3);
    expect(seen.consumer.overdue).toBe(1);
    open();
    await seen.received.count("handled", 4);
    await seen.worker.stop();
    expect(runs).toEqual(["slow", "a", "b", "c"]);
    expect(seen.received.ofType("retry")).toEqual([]);
    expect(await world.sizeOf(seen.queue)).toBe(0);
  });

  test("without an id get one, which stays the same", async () => {
    const seen = world.consumer((_, { attempt }) =>
      attempt < 3 ? Promise.reject(new Error("no")) : "ok",
    );
    await seen.worker.start();
    world.channel.sendToQueue(seen.queue, Buffer.from("x"));
    await seen.received.count("handled", 1);
    const ids = [...seen.received.ids("retry"), ...seen.received.ids("handled")];
    expect(new Set(ids).size).toBe(1);
  });

  test("are delivered only as far as the consumer has slots", async () => {
    const { opened, open } = gate();
    const seen = world.consumer(() => opened, { concurrency: 3 });
    await seen.worker.start();
    await seen.add("a", "b", "c", "d", "e");
    await until(() => seen.consumer.active === 3);
    expect(await world.sizeOf(seen.queue)).toBe(2);
    open();
    await seen.received.count("handled", 5);
  });

  test("go to an exchange of dead letters, with their first routing key", async () => {
    const exchange = "graveyard";
    await world.channel.assertExchange(exchange, "topic");
    await world.channel.assertQueue("graves");
    await world.channel.bindQueue("graves", exchange, "#");
    const seen = world.consumer(
      () => Promise.reject(new NonRetryableError(new Error("never"))),
      {},
      {
        deadLetterExchange: exchange,
      },
    );
    await seen.worker.start();
    await seen.add("a");
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    expect(await world.channel.get("graves", { noAck: true })).toMatchObject({
      fields: { exchange, routingKey: seen.queue },
      properties: { messageId: "a", headers: { "x-redrive-reason": "not-retryable" } },
    });
  });

  test("stay in their queue while no queue takes a dead letter", async () => {
    const exchange = "empty";
    await world.channel.assertExchange(exchange, "fanout");
    const seen = world.consumer(
      () => Promise.reject(new NonRetryableError(new Error("never"))),
      {},
      {
        deadLetterExchange: exchange,
      },
    );
    await seen.worker.start();
    await seen.add("a");
    const [failure] = await seen.received.count("broker-failed", 1);
    expect(String(failure?.error)).toContain('no queue takes messages of exchange "empty"');
    await world.channel.assertQueue("late");
    await world.channel.bindQueue("late", exchange, "");
    await seen.received.count("broker-recovered", 1);
    await seen.worker.stop();
    expect(await world.sizeOf("late")).toBe(1);
    expect(await world.sizeOf(seen.queue)).toBe(0);
  });
});

describe("a connection", () => {
  async function proxied() {
    const proxy = new TcpProxy(Number(new URL(world.server.url).port));
    await proxy.listen();
    return { proxy, url: `amqp://127.0.0.1:${proxy.port}` };
  }

  test.each(["quorum", "classic"] as const)(
    "that is cut while a handler runs delays the message and reports the loss, in a %s queue",
    async (type) => {
      const { proxy, url } = await proxied();
      const { opened, open } = gate();
      const attempts: number[] = [];
      const seen = world.consumer(
        async (_, { attempt }) => {
          if (attempts.push(attempt) === 1) await opened;
        },
        {},
        { url, queueOptions: { durable: true, arguments: { "x-queue-type": type } } },
      );
      await seen.worker.start();
      await seen.add("a");
      await until(() => attempts.length === 1);
      proxy.state = "refused";
      await seen.received.count("broker-failed", 1);
      proxy.state = "open";
      await seen.received.count("handled", 1);
      // The first loss uses no attempt: nobody knows whether the handler ran.
      expect(attempts).toEqual([1, 1]);
      expect(seen.received.ofType("lost")).toMatchObject([{ lost: 1, delayMs: 20 }]);
      open();
      await seen.received.count("handled", 2);
      await seen.worker.stop();
      expect(await world.sizeOf(seen.queue)).toBe(0);
      proxy.close();
    },
  );

  test("that is cut between the copy and its acknowledgment doubles the message, and loses none", async () => {
    const { proxy, url } = await proxied();
    const seen = world.consumer(
      (_, { attempt }) => {
        if (attempt > 1) return;
        // The broker stores the copy, and its confirmation is lost.
        proxy.cutNextResponse();
        throw new Error("fails once");
      },
      {},
      { url },
    );
    await seen.worker.start();
    await seen.add("a");
    await seen.received.count("handled", 1);
    expect(new Set(seen.received.ids("handled"))).toEqual(new Set(["a"]));
    proxy.close();
  });

  test("whose queue is deleted is opened again when the queue exists", async () => {
    const seen = world.consumer(() => "done", {}, { queueOptions: undefined as never });
    await expect(seen.worker.start()).rejects.toThrow("NOT_FOUND");
    await world.channel.assertQueue(seen.queue, QUORUM);
    await seen.worker.start();
    await world.channel.deleteQueue(seen.queue);
    await seen.received.count("broker-failed", 1);
    await world.channel.assertQueue(seen.queue, QUORUM);
    await seen.add("a");
    await seen.received.count("handled", 1);
  });
});

describe("stop", () => {
  test("waits for handlers, and gives back what does not end, without using an attempt", async () => {
    const { opened, open } = gate();
    const seen = world.consumer(({ id }, { signal }) => {
      if (id === "ends") return opened;
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason)),
      );
    });
    await seen.worker.start();
    await seen.add("ends", "hangs");
    await until(() => seen.consumer.active === 2);
    open();
    await seen.received.count("handled", 1);
    await seen.worker.stop(0);
    expect(seen.received.ofType("defer")).toMatchObject([{ id: "hangs", by: "stop" }]);
    const attempts: number[] = [];
    const next = world.consumer(
      (_, { attempt }) => void attempts.push(attempt),
      {},
      { queue: seen.queue },
    );
    await next.worker.start();
    await next.received.count("handled", 1);
    expect(attempts).toEqual([1]);
  });
});

describe("options", () => {
  const mistakes: [object, string][] = [
    [{ queue: "q" }, "connect is required, got undefined"],
    [{ connect, queue: "" }, "queue must be 1 to 200 characters"],
    [{ connect, queue: "q", tiersMs: [200, 100] }, "tiersMs must be a list of whole milliseconds"],
    [{ connect, queue: "q", queueType: "stream" }, "queueType must be one of quorum, classic"],
    [{ connect, queue: "q", prefech: 3 }, 'did you mean "prefetch"?'],
  ];

  test.each(mistakes)("refuses %o", (options, text) => {
    const consumer = consume<RabbitBody>(() => undefined);
    expect(() => rabbitmq(consumer, options as RabbitOptions)).toThrow(text);
  });
});

describe("a bridge to the service", () => rabbitBridgeTests(() => world));

test("the recipe handles orders once, retries failures and keeps what cannot be handled", async () => {
  const { worker, handled } = await runRecipe<{ worker: Worker; handled: unknown[] }>("rabbitmq", {
    AMQP_URL: world.server.url,
  });
  const send = (order: { readonly id: string; readonly flaky?: true; readonly bad?: true }) =>
    world.channel.sendToQueue("orders", Buffer.from(JSON.stringify(order)), {
      messageId: order.id,
    });
  send({ id: "order-1" });
  send({ id: "order-1" });
  send({ id: "order-2", flaky: true });
  send({ id: "order-3", bad: true });
  await until(() => handled.length === 2);
  await worker.stop();
  expect(handled).toEqual(["order-1", "order-2"]);
  expect(await world.channel.get("orders.dead", { noAck: true })).toMatchObject({
    properties: { messageId: "order-3", headers: { "x-redrive-reason": "not-retryable" } },
  });
});

test("a consumer that is killed repeatedly loses nothing", { timeout: 120_000 }, async () => {
  const queue = "kills";
  await world.channel.assertQueue(queue, QUORUM);
  const publish = (ids: readonly string[]) => world.publish(queue, ids);
  const queueNames = [queue, ...[100, 150, 200].map((ms) => `${queue}.redrive.${ms}`)];
  await killConsumers(["rabbitmq", world.server.url, queue], publish, async () => {
    // An unacknowledged message is not counted, so a second consumer must get nothing either.
    const counts = await Promise.all(queueNames.map((name) => world.sizeOf(name)));
    return counts.every((count) => count === 0);
  });
  expect(await world.sizeOf(`${queue}.dead`)).toBe(0);
});
