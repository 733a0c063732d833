/** Tests of the adapter for Redis Streams, with a real Redis. */
// needs: redis
import { createClient } from "@redis/client";
import { Redis } from "ioredis";
import { NonRetryableError } from "redrive";
import {
  type ConsumeOptions,
  consume,
  type Message,
  type MessageContext,
  type RedisFields,
  type RedisStreamsOptions,
  redisStreams,
  type Worker,
} from "redrive/consume";
import { virtualClock } from "redrive/testing";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";
import { gate, Received, until } from "./received.ts";

let server: RedisServer;
let redis: Redis;
let streams = 0;
const workers: Worker[] = [];
const closers: (() => void)[] = [];

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop(0)));
  for (const close of closers.splice(0)) close();
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

type Handler = (message: Message<RedisFields>, context: MessageContext) => unknown;

interface Place {
  readonly stream?: string;
  readonly group?: string;
  readonly client?: Redis;
  readonly streams?: Partial<RedisStreamsOptions>;
}

/** A consumer of its own stream. Messages come back within milliseconds. */
function setup(handler: Handler, options: ConsumeOptions = {}, place: Place = {}) {
  const { stream = `orders-${++streams}`, group = "billing", client = redis } = place;
  const received = new Received();
  const policy = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 5 };
  const consumer = consume(handler, {
    policy,
    minDelayMs: 1,
    deferMs: 2,
    onEvent: received.onEvent,
    ...options,
  });
  const worker = redisStreams(consumer, { client, stream, group, blockMs: 50, ...place.streams });
  workers.push(worker);
  const key = (name: string) => `{${stream}}:${group}:${name}`;
  const add = async (...ids: string[]) => {
    const all = redis.pipeline();
    for (const id of ids) all.xadd(stream, "*", "id", id, "body", `body of ${id}`);
    await all.exec();
  };
  const pending = async () => Number(((await redis.xpending(stream, group)) as unknown[])[0]);
  const start = async () => worker.start();
  return { stream, group, received, consumer, worker, key, add, pending, start };
}

/** The test decides when alarms are due; turns of the event loop end by themselves. */
function alarmClock() {
  return { ...virtualClock(Date.now()), endOfTurn: (fn: () => void) => void setImmediate(fn) };
}

const BY_ID = { streams: { idField: "id" } };

describe("messages", () => {
  test("are handled and acknowledged, also those that were there before the group", async () => {
    const bodies: string[] = [];
    const seen = setup(({ body }) => void bodies.push(body["body"] ?? ""), {}, BY_ID);
    await seen.add("a", "b");
    await seen.start();
    await seen.add("c");
    await seen.received.count("handled", 3);
    await seen.worker.stop();
    expect(seen.received.ids("handled")).toEqual(["a", "b", "c"]);
    expect(bodies).toEqual(["body of a", "body of b", "body of c"]);
    expect(await seen.pending()).toBe(0);
  });

  test("that fail come back, to their own group only, until they are dead letters", async () => {
    const attempts: number[] = [];
    const fail: Handler = (_, { attempt }) => {
      attempts.push(attempt);
      throw Object.assign(new Error("busy"), { status: 503 });
    };
    const seen = setup(fail, {}, BY_ID);
    const other = setup(() => "done", {}, { ...BY_ID, stream: seen.stream, group: "shipping" });
    await Promise.all([seen.start(), other.start()]);
    await seen.add("a");
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    expect(attempts).toEqual([1, 2, 3]);
    expect(other.received.ids("handled")).toEqual(["a"]);
    const [entry] = await redis.xrange(seen.key("dead"), "-", "+");
    const fields = Object.fromEntries(pairs(entry?.[1] ?? []));
    expect(fields).toMatchObject({ id: "a", body: "body of a", "redrive-reason": "attempts" });
    expect(JSON.parse(fields["redrive-state"] ?? "")).toMatchObject({
      attempts: 3,
      history: [
        { attempt: 1, verdict: "transient", error: "Error: busy" },
        { attempt: 2, verdict: "transient" },
        { attempt: 3, verdict: "transient" },
      ],
    });
    await expectNothingLeft(seen);
  });

  test("whose handlers run on after their timeout are handled once, and others beside them", async () => {
    const { opened, open } = gate();
    const runs: string[] = [];
    const seen = setup(
      ({ id }) => {
        runs.push(id);
        return id === "slow" ? opened : undefined;
      },
      {
        policy: { maxAttempts: 3, attemptTimeoutMs: 100, initialDelayMs: 1, maxDelayMs: 5 },
        concurrency: 2,
      },
      BY_ID,
    );
    await seen.start();
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
    expect(await seen.pending()).toBe(0);
  });

  test("keep their bytes while they wait", async () => {
    const bytes = Buffer.from([0xff, 0x00, 0xfe]);
    const seen = setup(() => Promise.reject(new NonRetryableError(new Error("never"))), {});
    await redis.xadd(seen.stream, "*", "bytes", bytes);
    await seen.start();
    await seen.received.count("dead-letter", 1);
    await seen.worker.stop();
    const [entry] = await redis.xrangeBuffer(seen.key("dead"), "-", "+");
    expect(entry?.[1][1]).toEqual(bytes);
  });

  test("without an id of their own have the id of their entry, also when they come back", async () => {
    const seen = setup((_, { attempt }) =>
      attempt < 3 ? Promise.reject(new Error("no")) : "done",
    );
    const id = await redis.xadd(seen.stream, "*", "body", "x");
    await seen.start();
    await seen.received.count("handled", 1);
    expect([...seen.received.ids("retry"), ...seen.received.ids("handled")]).toEqual([id, id, id]);
  });

  test("are read only as far as the consumer has slots", async () => {
    const { opened, open } = gate();
    const seen = setup(() => opened, { concurrency: 3 });
    await seen.add(...Array.from({ length: 20 }, (_, index) => `m${index}`));
    await seen.start();
    await until(async () => seen.consumer.active >= 2);
    // One slot stays free for messages that come back.
    expect(await seen.pending()).toBe(2);
    open();
    await seen.received.count("handled", 20);
  });

  test("that producers trim while they are handled are not lost", async () => {
    const { opened, open } = gate();
    const seen = setup(
      async (_, { attempt }) => {
        if (attempt > 1) return;
        await opened;
        throw new Error("failed");
      },
      {},
      BY_ID,
    );
    await seen.add("a");
    await seen.start();
    await until(async () => seen.consumer.active === 1);
    await redis.xtrim(seen.stream, "MAXLEN", 0);
    open();
    await seen.received.count("handled", 1);
    expect(seen.received.ids("handled")).toEqual(["a"]);
  });
});

describe("a consumer that dies", () => {
  test("leaves its messages to the next one, which learns of the lost delivery", async () => {
    const attempts: number[] = [];
    const seen = setup((_, { attempt }) => void attempts.push(attempt), {}, BY_ID);
    await seen.add("a");
    await redis.xgroup("CREATE", seen.stream, seen.group, "0");
    const read = ["GROUP", seen.group, "ghost", "STREAMS", seen.stream, ">"] as const;
    const reply = await redis.call("XREADGROUP", ...read);
    await redis.xclaim(seen.stream, seen.group, "ghost", 0, idIn(reply), "IDLE", 60_001, "JUSTID");
    await seen.start();
    await seen.received.count("handled", 1);
    // The first loss uses no attempt: nobody knows whether the handler ran.
    expect(attempts).toEqual([1]);
    expect(seen.received.ofType("lost")).toMatchObject([{ id: "a", lost: 1 }]);
  });

  test("does not lose a message to another consumer while it works on it", async () => {
    const clock = alarmClock();
    const { opened, open } = gate();
    const policy = { attemptTimeoutMs: 600_000, totalBudgetMs: 600_000 };
    const seen = setup(() => opened, { clock, policy }, { streams: { consumerName: "alive" } });
    await seen.add("a");
    await seen.start();
    await until(async () => seen.consumer.active === 1);
    const [first] = await redis.xrange(seen.stream, "-", "+");
    const id = first?.[0] ?? "";
    const { stream, group } = seen;
    await redis.xclaim(stream, group, "alive", 0, id, "IDLE", 600_000, "JUSTID");
    await clock.advance(20_000);
    await until(async () => {
      const [info] = (await redis.xpending(stream, group, "-", "+", 1)) as [
        [string, string, number],
      ];
      return info[2] < 60_000;
    });
    const [, owner, , deliveries] = (
      (await redis.xpending(stream, group, "-", "+", 1)) as [[string, string, number, number]]
    )[0];
    expect([owner, deliveries]).toEqual(["alive", 1]);
    open();
  });

  test("cannot move a message that another one has taken over", async () => {
    const { opened, open } = gate();
    const fail = async () => {
      await opened;
      throw new Error("late");
    };
    const seen = setup(fail);
    await seen.add("a");
    await seen.start();
    await until(async () => seen.consumer.active === 1);
    const [first] = await redis.xrange(seen.stream, "-", "+");
    await redis.xclaim(seen.stream, seen.group, "other", 0, first?.[0] ?? "");
    open();
    await seen.received.count("retry", 1);
    await seen.worker.stop();
    expect(await redis.zcard(seen.key("delayed"))).toBe(0);
    expect(await seen.pending()).toBe(1);
  });
});

describe("stop", () => {
  test("waits for handlers, and removes the consumer from the group", async () => {
    const { opened, open } = gate();
    const seen = setup(() => opened);
    await seen.add("a");
    await seen.start();
    await until(async () => seen.consumer.active === 1);
    const stopped = seen.worker.stop();
    open();
    await stopped;
    expect(seen.received.ids("handled")).toHaveLength(1);
    expect(await redis.xinfo("CONSUMERS", seen.stream, seen.group)).toEqual([]);
    await expectNothingLeft(seen);
    await seen.worker.stop();
  });

  test("gives a message back that is not handled in time, without using an attempt", async () => {
    const seen = setup(
      (_, { signal }) =>
        new Promise((__, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    await seen.add("a");
    await seen.start();
    await until(async () => seen.consumer.active === 1);
    await seen.worker.stop(0);
    expect(seen.received.ofType("defer")).toMatchObject([{ by: "stop" }]);
    const attempts: number[] = [];
    const next = setup(
      (_, { attempt }) => void attempts.push(attempt),
      {},
      { stream: seen.stream },
    );
    await next.start();
    await next.received.count("handled", 1);
    expect(attempts).toEqual([1]);
  });
});

describe("Redis", () => {
  test("may close the connection at any time", async () => {
    const proxy = new TcpProxy(Number(new URL(server.url).port));
    await proxy.listen();
    const client = new Redis(proxy.port, "127.0.0.1", { retryStrategy: () => 5 });
    client.on("error", () => undefined);
    closers.push(
      () => client.disconnect(),
      () => proxy.close(),
    );
    const seen = setup(() => "done", {}, { ...BY_ID, client });
    await seen.start();
    await seen.add("a");
    await seen.received.count("handled", 1);
    proxy.state = "refused";
    await seen.add("b");
    proxy.state = "open";
    await seen.received.count("handled", 2);
    expect(seen.received.ids("handled")).toEqual(["a", "b"]);
    await until(async () => (await seen.pending()) === 0);
  });

  test("may lose the group, which is created again", async () => {
    const seen = setup(() => "done", {}, { streams: { blockMs: 10 } });
    await seen.start();
    await redis.del(seen.stream, seen.key("retry"));
    await seen.received.count("broker-failed", 1);
    await seen.received.count("broker-recovered", 1);
    await seen.add("a");
    await seen.received.count("handled", 1);
  });
});

test("a client of node-redis works as well", async () => {
  const client = createClient({ url: server.url });
  await client.connect();
  const attempts: number[] = [];
  const seen = setup(
    (_, { attempt }) => {
      attempts.push(attempt);
      if (attempt < 3) throw new Error("not yet");
    },
    {},
    { ...BY_ID, streams: { idField: "id", client } },
  );
  await seen.start();
  await seen.add("a", "b");
  await seen.received.count("handled", 2);
  await seen.worker.stop();
  await expectNothingLeft(seen);
  expect(attempts.toSorted()).toEqual([1, 1, 2, 2, 3, 3]);
  client.destroy();
});

test("trim removes what every group has handled, and nothing else", async () => {
  const clock = alarmClock();
  const seen = setup(() => "done", { clock }, { streams: { trim: true } });
  // Redis removes whole nodes of a stream; a node has 100 entries by default.
  const ids = Array.from({ length: 300 }, (_, index) => `m${index}`);
  await seen.add(...ids);
  await redis.xgroup("CREATE", seen.stream, "slow", "0");
  await redis.call("XREADGROUP", "GROUP", "slow", "c", "COUNT", 250, "STREAMS", seen.stream, ">");
  const all = await redis.xrange(seen.stream, "-", "+");
  const done = all.slice(0, 150).map(([id]) => id);
  await redis.xack(seen.stream, "slow", ...done);
  await seen.start();
  await seen.received.count("handled", 300);
  await until(async () => (await seen.pending()) === 0);
  await clock.advance(60_000);
  await until(async () => (await redis.xlen(seen.stream)) < 300);
  const left = await redis.xrange(seen.stream, "-", "+");
  expect(left.length).toBeGreaterThanOrEqual(150);
  expect(left.at(-150)?.[0]).toBe(all[150]?.[0]);
});

describe("options", () => {
  const mistakes: [object, string][] = [
    [{ stream: "s", group: "g" }, "client is required, got undefined"],
    [{ client: {}, stream: "s", group: "g" }, "client must be a client of ioredis or node-redis"],
    [{ client: {}, stream: "a b", group: "g" }, "stream must be 1 to 500 characters"],
    [{ client: {}, stream: "s", group: "g", idleMs: 1 }, "idleMs must be a whole number from 1000"],
    [{ client: {}, stream: "a}b", group: "g" }, "stream must have no } outside of a hash tag"],
    [{ client: {}, streem: "s", group: "g" }, 'did you mean "stream"?'],
  ];

  test.each(mistakes)("refuses %o", (options, text) => {
    const consumer = consume<RedisFields>(() => undefined);
    expect(() => redisStreams(consumer, options as RedisStreamsOptions)).toThrow(text);
  });
});

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, index) =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ""]] : [],
  ) as [string, string][];
}

function idIn(reply: unknown): string {
  return /\d+-\d+/.exec(JSON.stringify(reply))?.[0] ?? "";
}

async function expectNothingLeft({ key, pending }: ReturnType<typeof setup>): Promise<void> {
  expect(await pending()).toBe(0);
  expect(await redis.zcard(key("delayed"))).toBe(0);
  expect(await redis.hlen(key("delayed-data"))).toBe(0);
  expect(await redis.xlen(key("retry"))).toBe(0);
}
