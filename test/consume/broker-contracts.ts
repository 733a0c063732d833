/**
 * Contracts: what the adapters rely on at their brokers, as tests that run against a real broker and against
 * the one in memory. So the scenarios, which use those in memory, show what happens with the real ones.
 */

import type { AmqpConnection, AmqpMessage, RedisClient } from "redrive/consume";
import { describe, expect, test } from "vitest";
import {
  connectionOf,
  redisKeysOf,
  StreamCommands,
} from "../../faces/library/src/consume/redis-streams.ts";
import { until } from "./received.ts";

export interface RedisPlace {
  readonly client: RedisClient;
  /** Adds an entry with the field `body`. Returns its id. */
  readonly add: (stream: string, body: string) => Promise<string>;
}

let streams = 0;

const STATE = JSON.stringify({
  attempts: 1,
  startedAt: 5,
  previousDelayMs: 0,
  isThrottled: false,
  lost: 0,
  history: [],
});

/** What `StreamCommands` gets from Redis. */
export function redisContract(open: () => RedisPlace): void {
  async function setup() {
    const { client, add } = open();
    const stream = `contract-${++streams}`;
    const keys = redisKeysOf(stream, "g", undefined);
    const connection = connectionOf(client);
    const as = (consumer: string) =>
      new StreamCommands(connection, { keys, group: "g", consumer, idField: undefined });
    const [me, other] = [as("me"), as("other")];
    await me.createGroups("0");
    await other.createGroups("0");
    const blocking = await connection.duplicate();
    const read = async (count: number) => await me.read(blocking, count, 20);
    return {
      me,
      other,
      read,
      add: (body: string) => add(stream, body),
      close: () => blocking.close(),
    };
  }

  const bodies = (entries: readonly { readonly message: { readonly body: object } }[]) =>
    entries.map(({ message }) => (message.body as { body?: string }).body);

  test("a group reads each entry once, in order, and waits for more", async () => {
    const { read, add, close } = await setup();
    for (const body of ["a", "b", "c"]) await add(body);
    expect(bodies(await read(2))).toEqual(["a", "b"]);
    expect(bodies(await read(10))).toEqual(["c"]);
    expect(await read(10)).toEqual([]);
    close();
  });

  test("a delayed entry comes back when it is due, with its id and its state", async () => {
    const { me, read, add, close } = await setup();
    const id = await add("a");
    const [entry] = await read(1);
    if (entry === undefined) throw new Error("no entry");
    expect(await me.delay(entry, 2000, STATE)).toBe("moved");
    expect(await me.delay(entry, 2000, STATE)).toBe("lost");
    expect(await me.takeDue(1999, 10)).toEqual({ entries: [], nextAt: 2000 });
    const { entries, nextAt } = await me.takeDue(2000, 10);
    expect(entries).toMatchObject([{ isRetry: true, message: { id, state: { startedAt: 5 } } }]);
    expect(nextAt).toBeUndefined();
    expect(bodies(entries)).toEqual(["a"]);
    const [due] = entries;
    if (due === undefined) throw new Error("no entry");
    await me.ack(true, [due.entryId]);
    expect(await me.claimIdle(true, { cursor: "0-0", count: 10, idleMs: 0 })).toMatchObject({
      entries: [],
    });
    close();
  });

  test("due entries come in the order of their times, no more than asked for", async () => {
    const { me, read, add, close } = await setup();
    for (const body of ["a", "b", "c"]) await add(body);
    const dueAt = [300, 100, 200];
    for (const [index, entry] of (await read(3)).entries()) {
      await me.delay(entry, dueAt[index] ?? 0, STATE);
    }
    const first = await me.takeDue(1000, 2);
    expect([bodies(first.entries), first.nextAt]).toEqual([["b", "c"], 300]);
    expect(bodies((await me.takeDue(1000, 2)).entries)).toEqual(["a"]);
    close();
  });

  test("an entry that another consumer takes over has one more delivery, and cannot be moved", async () => {
    const { me, other, read, add, close } = await setup();
    await add("a");
    const [mine] = await read(1);
    const taken = await other.claimIdle(false, { cursor: "0-0", count: 10, idleMs: 0 });
    expect(taken.entries).toMatchObject([{ message: { deliveries: 2 } }]);
    if (mine === undefined) throw new Error("no entry");
    expect(await me.deadLetter(mine, 0, STATE, "attempts")).toBe("lost");
    await other.renew(false, [mine.entryId]);
    const again = await me.claimIdle(false, { cursor: "0-0", count: 10, idleMs: 60_000 });
    expect(again.entries).toEqual([]);
    close();
  });
}

export type ConnectAmqp = () => Promise<AmqpConnection>;

let queues = 0;

/** What the session of RabbitMQ gets from the broker. */
export function rabbitContract(connect: ConnectAmqp): void {
  async function setup(type: "quorum" | "classic", more: object = {}) {
    const connection = await connect();
    connection.on("error", () => undefined);
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => undefined);
    const queue = `contract-${++queues}`;
    const options = { durable: true, arguments: { "x-queue-type": type, ...more } };
    await channel.assertQueue(queue, options);
    const got: AmqpMessage[] = [];
    const consume = (on = channel) =>
      on.consume(queue, (message) => void (message && got.push(message)));
    return { connection, channel, queue, got, consume, publish: publisher(channel) };
  }

  function publisher(channel: Awaited<ReturnType<AmqpConnection["createConfirmChannel"]>>) {
    return (queue: string, ...ids: string[]) =>
      Promise.all(
        ids.map(
          (messageId) =>
            new Promise<void>((resolve, reject) => {
              const options = { messageId, mandatory: true };
              channel.publish("", queue, Buffer.from("x"), options, (error) =>
                error ? reject(error) : resolve(),
              );
            }),
        ),
      );
  }

  const ids = (messages: readonly AmqpMessage[]) =>
    messages.map(({ properties }) => properties.messageId);

  test("a consumer gets as many messages as its prefetch, until it acknowledges", async () => {
    const { connection, channel, queue, got, consume, publish } = await setup("quorum");
    await publish(queue, "a", "b", "c", "d", "e");
    await channel.prefetch(2);
    await consume();
    await until(() => got.length === 2);
    channel.ack(got[0] as AmqpMessage);
    await until(() => got.length === 3);
    channel.ack(got[2] as AmqpMessage, true);
    await until(() => got.length === 5);
    expect(ids(got)).toEqual(["a", "b", "c", "d", "e"]);
    await connection.close();
  });

  test("a new consumer on the channel has its own prefetch beside what is unanswered", async () => {
    const { connection, channel, queue, got, consume, publish } = await setup("quorum");
    await publish(queue, "a", "b", "c", "d", "e");
    await channel.prefetch(2);
    const { consumerTag } = await consume();
    await until(() => got.length === 2);
    await channel.cancel(consumerTag);
    await channel.prefetch(1);
    await consume();
    await until(() => got.length === 3);
    channel.ack(got[1] as AmqpMessage);
    channel.ack(got[2] as AmqpMessage);
    await until(() => got.length === 4);
    expect(ids(got)).toEqual(["a", "b", "c", "d"]);
    await connection.close();
  });

  describe.each(["quorum", "classic"] as const)("a %s queue", (type) => {
    test("delivers what was unanswered again, first and marked", async () => {
      const { connection, channel, queue, got, consume, publish } = await setup(type);
      await publish(queue, "a", "b", "c");
      await channel.prefetch(2);
      await consume();
      await until(() => got.length === 2);
      await connection.close();
      const next = await connect();
      const channelOfNext = await next.createConfirmChannel();
      await channelOfNext.prefetch(10);
      await consume(channelOfNext);
      await until(() => got.length === 5);
      expect(ids(got.slice(2)).toSorted()).toEqual(["a", "b", "c"]);
      const marks = got
        .slice(2)
        .map(({ fields, properties }) => [
          properties.messageId,
          fields.redelivered,
          properties.headers?.["x-delivery-count"],
        ]);
      const count = type === "quorum" ? 1 : undefined;
      expect(marks).toContainEqual(["a", true, count]);
      expect(marks).toContainEqual(["b", true, count]);
      expect(marks).toContainEqual(["c", false, undefined]);
      await next.close();
    });
  });

  test("a delay queue returns a message to its queue when its time is over", async () => {
    const { connection, channel, queue, got, consume, publish } = await setup("quorum");
    await channel.assertQueue(`${queue}.delay`, {
      durable: true,
      arguments: {
        "x-queue-type": "quorum",
        "x-message-ttl": 50,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
      },
    });
    await channel.prefetch(10);
    await consume();
    const startMs = performance.now();
    await publish(`${queue}.delay`, "a");
    await until(() => got.length === 1);
    expect(performance.now() - startMs).toBeGreaterThan(40);
    expect(got[0]).toMatchObject({
      properties: { messageId: "a" },
      fields: { redelivered: false },
    });
    await connection.close();
  });

  test("a message that no queue takes is returned, and confirmed", async () => {
    const { connection, channel, publish } = await setup("quorum");
    const returned: unknown[] = [];
    channel.on("return", ({ properties }: AmqpMessage) => returned.push(properties.messageId));
    await publish("nowhere", "a");
    expect(returned).toEqual(["a"]);
    await connection.close();
  });

  test("a queue that does not exist closes the channel, not the connection", async () => {
    const { connection, channel } = await setup("quorum");
    await expect(channel.checkQueue("nowhere")).rejects.toThrow("NOT_FOUND");
    await connection.createConfirmChannel();
    await connection.close();
  });
}
