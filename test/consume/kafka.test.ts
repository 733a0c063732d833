/**
 * Tests of the adapter for Kafka: the real kafkajs, against a small broker that speaks Kafka's protocol
 * (`test/servers/kafka.ts`), because no real Kafka can be installed with npm or apt. Also Confluent's client,
 * where it is installed.
 */
// needs: build
import { Kafka, logLevel } from "kafkajs";
import { NonRetryableError } from "redrive";
import {
  type ConsumeOptions,
  consume,
  type KafkaBody,
  type KafkaClient,
  type KafkaOptions,
  kafka,
  type Message,
  type MessageContext,
  type Worker,
} from "redrive/consume";
import { memoryStore } from "redrive/idempotency";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { KafkaServer } from "../servers/kafka.ts";
import { killConsumers } from "./kill.ts";
import { gate, Received, until } from "./received.ts";

let server: KafkaServer;
let topics = 0;
const workers: Worker[] = [];

beforeAll(async () => {
  server = new KafkaServer();
  await server.start();
});

afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop(0)));
});

afterAll(async () => {
  await server.stop();
});

function kafkaJs(): Kafka {
  const retry = { initialRetryTime: 20, maxRetryTime: 200, retries: 5 };
  return new Kafka({ brokers: [server.address], logLevel: logLevel.NOTHING, retry });
}

type Handler = (message: Message<KafkaBody>, context: MessageContext) => unknown;

/** A client, and options with which members of a group are noticed and forgotten within milliseconds. */
interface Flavor {
  readonly name: string;
  /** It waits for what a partition runs before it gives the partition up. */
  readonly drains: boolean;
  /** Heartbeats that take longer than a session. */
  readonly beats: number;
  /** It tells of a broker that is down. The other one tries again for minutes. */
  readonly reports: boolean;
  readonly client: () => KafkaClient;
  readonly quick: (sessionMs: number) => object;
}

const flavors: Flavor[] = [
  {
    name: "kafkajs",
    drains: false,
    beats: 60,
    reports: true,
    client: kafkaJs,
    quick: (sessionTimeout) => ({ maxWaitTimeInMs: 20, heartbeatInterval: 20, sessionTimeout }),
  },
];

/** Its package has a binary that npm does not ship, so it is no dependency of this repository. */
const CONFLUENT = "@confluentinc/kafka-javascript";
const confluent = (await import(/* @vite-ignore */ CONFLUENT).catch(() => undefined)) as
  | { readonly KafkaJS: { readonly Kafka: new (config: object) => KafkaClient } }
  | undefined;
if (confluent !== undefined) {
  const { Kafka: Client } = confluent.KafkaJS;
  flavors.push({
    name: "Confluent's client",
    drains: true,
    beats: 4,
    reports: false,
    client: () => new Client({ "bootstrap.servers": server.address, log_level: 0 }),
    quick: (sessionMs) => ({
      "fetch.wait.max.ms": 20,
      "heartbeat.interval.ms": 20,
      // It shows that it is alive once a second at most.
      "session.timeout.ms": Math.max(3000, sessionMs),
      "reconnect.backoff.max.ms": 100,
    }),
  });
}

let flavor = flavors[0] as Flavor;

const policy = { maxAttempts: 3, initialDelayMs: 20, maxDelayMs: 40, jitterType: "NONE" } as const;

interface Place extends Partial<KafkaOptions> {
  readonly partitions?: number;
}

const textOf = (bytes: Uint8Array | null) => new TextDecoder().decode(bytes ?? undefined);
/** Each topic has its own group, so that no test disturbs the next one. */
const groupOf = (topic: string) => `billing-${topic}`;

/** A consumer of its own topic. Messages come back after 20 or 40 ms. */
function setup(handler: Handler, options: ConsumeOptions = {}, place: Place = {}) {
  const { topic = `orders-${++topics}`, partitions = 1, ...more } = place;
  if (!server.topics.includes(topic)) server.createTopic(topic, partitions);
  const received = new Received();
  const consumer = consume(handler, {
    policy,
    minDelayMs: 1,
    deferMs: 2,
    onEvent: received.onEvent,
    ...options,
  });
  const worker = kafka(consumer, {
    client: flavor.client(),
    topic,
    group: groupOf(topic),
    commitMs: 10,
    consumerConfig: flavor.quick(10_000),
    idOf: ({ value }) => textOf(value),
    ...more,
  });
  workers.push(worker);
  const group = groupOf(topic);
  const names = {
    retry: (ms: number) => `${topic}.${group}.retry-${ms}`,
    dead: `${topic}.${group}.dead`,
  };
  const add = (...bodies: string[]) =>
    produce(
      topic,
      bodies.map((value) => ({ value })),
    );
  const lag = () => server.lag(group, topic);
  return { topic, group, names, received, consumer, worker, add, lag };
}

interface Written {
  readonly key?: string;
  readonly value: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly partition?: number;
}

async function produce(topic: string, messages: Written[]): Promise<void> {
  const producer = kafkaJs().producer();
  await producer.connect();
  await producer.send({ topic, messages });
  await producer.disconnect();
}

describe.each(flavors)("with $name,", (one) => {
  beforeAll(() => {
    flavor = one;
  });

  describe("messages", () => {
    test("are handled, and their offsets committed", async () => {
      const bodies: string[] = [];
      const seen = setup(({ body }) => void bodies.push(textOf(body.value)));
      await seen.worker.start();
      await seen.add("a", "b", "c");
      await seen.received.count("handled", 3);
      await until(() => seen.lag() === 0);
      expect(bodies).toEqual(["a", "b", "c"]);
    });

    test("that fail wait in the retry topics, then are dead letters with their history", async () => {
      const attempts: number[] = [];
      const seen = setup((_, { attempt }) => {
        attempts.push(attempt);
        throw Object.assign(new Error("busy"), { status: 503 });
      });
      await seen.worker.start();
      const value = Buffer.from([0xff, 0, 1]);
      await produce(seen.topic, [{ key: "k", value, headers: { color: "red" } }]);
      await seen.received.count("dead-letter", 1);
      await until(() => server.records(seen.names.dead).length === 1);
      expect(attempts).toEqual([1, 2, 3]);
      expect(server.records(seen.names.retry(20))).toHaveLength(1);
      expect(server.records(seen.names.retry(40))).toHaveLength(1);
      const [dead] = server.records(seen.names.dead);
      expect(dead).toMatchObject({
        key: "k",
        headers: { color: "red", "redrive-reason": "attempts" },
      });
      expect(JSON.parse(dead?.headers["redrive-state"] ?? "")).toMatchObject({
        attempts: 3,
        history: [
          { attempt: 1, error: "Error: busy", delayMs: 20 },
          { attempt: 2 },
          { attempt: 3 },
        ],
      });
      await until(() => seen.lag() === 0);
    });

    test("of a retry topic are handled when they are due, and not before", async () => {
      const handledAt: number[] = [];
      let failedAt = 0;
      const seen = setup(
        (_, { attempt }) => {
          if (attempt > 1) return handledAt.push(Date.now());
          failedAt = Date.now();
          throw new Error("once");
        },
        { policy: { ...policy, initialDelayMs: 300, maxDelayMs: 300 } },
      );
      await seen.worker.start();
      await seen.add("a");
      await seen.received.count("handled", 1);
      expect((handledAt[0] ?? 0) - failedAt).toBeGreaterThanOrEqual(300);
    });

    test("that fail do not stop those behind them", async () => {
      const seen = setup(({ id }) => {
        if (id === "bad") throw new NonRetryableError(new Error("never valid"));
      });
      await seen.worker.start();
      await seen.add("bad", "good");
      await seen.received.count("handled", 1);
      await until(() => seen.lag() === 0);
      expect(server.records(seen.names.dead)).toMatchObject([{ value: "bad" }]);
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
        { order: "none" },
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
      expect(seen.lag()).toBe(0);
    });

    test("have the id of their first place, also when they come back", async () => {
      const ids: string[] = [];
      const seen = setup(
        ({ id }, { attempt }) => {
          ids.push(id);
          if (attempt < 3) throw new Error("no");
        },
        {},
        { idOf: () => undefined },
      );
      await seen.worker.start();
      await seen.add("a");
      await seen.received.count("handled", 1);
      expect(ids).toEqual(Array(3).fill(`${seen.topic}/0/0`));
    });

    test("cannot bring a state of their own", async () => {
      const attempts: number[] = [];
      const seen = setup((_, { attempt }) => void attempts.push(attempt));
      const state = { attempts: 2, startedAt: 1, previousDelayMs: 0, isThrottled: false, lost: 0 };
      const headers = { "redrive-state": JSON.stringify({ ...state, history: [] }) };
      await seen.worker.start();
      await produce(seen.topic, [{ value: "a", headers }]);
      await seen.received.count("handled", 1);
      expect(attempts).toEqual([1]);
    });
  });

  describe("the order", () => {
    /** Starts of the handlers, which end when the test says so. */
    function controlled() {
      const started: string[] = [];
      const ends = new Map<string, () => void>();
      const handler: Handler = ({ id }) => {
        started.push(id);
        return new Promise<void>((resolve) => ends.set(id, resolve));
      };
      return { started, handler, end: (id: string) => ends.get(id)?.() };
    }

    test("of a partition is kept: each record starts after the one before it", async () => {
      const { started, handler, end } = controlled();
      const seen = setup(handler, {}, { partitions: 2 });
      await seen.worker.start();
      const at = (partition: number) => (value: string) => ({ value, partition });
      await produce(seen.topic, [...["a1", "a2"].map(at(0)), ...["b1", "b2"].map(at(1))]);
      await until(() => started.length === 2);
      expect(started.toSorted()).toEqual(["a1", "b1"]);
      end("b1");
      await until(() => started.length === 3);
      expect(started.at(-1)).toBe("b2");
      for (const id of ["a1", "b2"]) end(id);
      await until(() => started.length === 4);
      end("a2");
      await seen.received.count("handled", 4);
    });

    test("of a key is kept, and other keys are handled beside it", async () => {
      const { started, handler, end } = controlled();
      const seen = setup(handler, {}, { order: "key" });
      await seen.worker.start();
      const records = ["x1", "x2", "y1", "x3"];
      await produce(
        seen.topic,
        records.map((value) => ({ key: value.slice(0, 1), value })),
      );
      await until(() => started.length === 2);
      expect(started.toSorted()).toEqual(["x1", "y1"]);
      end("x1");
      await until(() => started.length === 3);
      expect(started.at(-1)).toBe("x2");
      for (const id of ["x2", "y1"]) end(id);
      await until(() => started.length === 4);
      end("x3");
      await seen.received.count("handled", 4);
    });

    test("is kept even for records that fail, if they are retried in their place", async () => {
      const runs: string[] = [];
      const seen = setup(
        ({ id }, { attempt }) => {
          runs.push(`${id} ${attempt}`);
          if (id === "a" && attempt < 3) throw Object.assign(new Error("busy"), { status: 503 });
          if (id === "b") throw Object.assign(new Error("busy"), { status: 503 });
        },
        {},
        { retryIn: "place" },
      );
      await seen.worker.start();
      await seen.add("a", "b", "c");
      await seen.received.count("handled", 2);
      expect(runs).toEqual(["a 1", "a 2", "a 3", "b 1", "b 2", "b 3", "c 1"]);
      expect(server.topics.filter((name) => name.startsWith(`${seen.topic}.`))).toEqual([
        seen.names.dead,
      ]);
      await until(() => seen.lag() === 0);
      expect(server.records(seen.names.dead)).toHaveLength(1);
    });

    test("is no matter if it is turned off, and only what has ended without a gap is committed", async () => {
      const { started, handler, end } = controlled();
      const seen = setup(handler, {}, { order: "none" });
      await seen.worker.start();
      await seen.add("a", "b", "c", "d");
      await until(() => started.length === 4);
      for (const id of ["b", "d"]) end(id);
      await seen.received.count("handled", 2);
      end("a");
      await until(() => seen.lag() === 2);
      end("c");
      await until(() => seen.lag() === 0);
    });
  });

  test("a partition with many records is paused, and goes on when most of them have ended", async () => {
    const { opened, open } = gate();
    const client = flavor.client();
    const consumers: { paused(): { readonly topic: string }[] }[] = [];
    const create = client.consumer.bind(client);
    client.consumer = (config) => {
      const own = create(config);
      consumers.push(own as unknown as (typeof consumers)[number]);
      return own;
    };
    const ids: string[] = [];
    const seen = setup(
      async ({ id }) => {
        await opened;
        ids.push(id);
      },
      {},
      { client },
    );
    await seen.worker.start();
    const paused = () => consumers[0]?.paused().map(({ topic }) => topic) ?? [];
    const first = Array.from({ length: 3000 }, (_, number) => String(number));
    await seen.add(...first);
    await until(() => paused().includes(seen.topic));
    expect(seen.consumer.active).toBe(1);
    open();
    await until(() => ids.length === 3000);
    expect(paused()).toEqual([]);
    await seen.add("last");
    await until(() => ids.length === 3001);
    expect(ids).toEqual([...first, "last"]);
    await until(() => seen.lag() === 0);
  });

  describe("a member of the group", () => {
    test("stays one while a handler runs for longer than its session", async () => {
      const { opened, open } = gate();
      const seen = setup(
        () => opened,
        {},
        {
          consumerConfig: flavor.quick(1000),
        },
      );
      await seen.worker.start();
      await seen.add("a");
      await until(() => seen.consumer.active === 1);
      const before = server.requests["heartbeat"] ?? 0;
      await until(() => (server.requests["heartbeat"] ?? 0) > before + flavor.beats);
      expect(server.membersOf(seen.group)).toBe(1);
      open();
      await until(() => seen.lag() === 0);
      expect(seen.received.ids("handled")).toEqual(["a"]);
    });

    test("shares the partitions with another one, and nothing is lost", async () => {
      const ids = Array.from({ length: 200 }, (_, index) => `m${index}`);
      const first = setup(() => "done", { concurrency: 2 }, { partitions: 4 });
      await first.worker.start();
      await first.add(...ids.slice(0, 100));
      await first.received.count("handled", 20);
      const second = setup(() => "done", { concurrency: 2 }, { topic: first.topic });
      await second.worker.start();
      await until(() => server.membersOf(first.group) === 2);
      for (const id of ids.slice(100)) await first.add(id);
      await until(() => first.lag() === 0);
      const handled = [...first.received.ids("handled"), ...second.received.ids("handled")];
      expect([...new Set(handled)].toSorted()).toEqual(ids.toSorted());
      expect(second.received.ids("handled").length).toBeGreaterThan(0);
      // The second one stops in an orderly way, and leaves nothing to be repeated.
      const before = handled.length;
      await second.worker.stop();
      await first.add("last");
      await until(() => first.lag() === 0);
      const after = first.received.ids("handled").length + second.received.ids("handled").length;
      expect(after).toBe(before + 1);
    });

    test("that loses a partition does not commit what it still runs there", async () => {
      const { opened, open } = gate();
      const first = setup(() => opened, {}, { partitions: 2 });
      await first.worker.start();
      await produce(first.topic, [
        { value: "a", partition: 0 },
        { value: "b", partition: 1 },
      ]);
      await until(() => first.consumer.active === 2);
      const second = setup(() => "done", {}, { topic: first.topic });
      await second.worker.start();
      if (flavor.drains) return open();
      // It handles the message of the partition that it got, although the first one runs it.
      const [moved] = await second.received.count("handled", 1);
      await until(() => first.lag() === 1);
      open();
      await until(() => first.lag() === 0);
      expect(first.received.ids("handled").toSorted()).toEqual(["a", "b"]);
      expect(["a", "b"]).toContain(moved?.id);
    });

    test("that waits for what it runs before it gives a partition up repeats nothing", async () => {
      const { opened, open } = gate();
      const first = setup(() => opened, {}, { partitions: 2 });
      await first.worker.start();
      await produce(first.topic, [
        { value: "a", partition: 0 },
        { value: "b", partition: 1 },
      ]);
      await until(() => first.consumer.active === 2);
      if (!flavor.drains) return open();
      const second = setup(() => "done", {}, { topic: first.topic });
      await second.worker.start();
      open();
      await until(() => server.membersOf(first.group) === 2);
      await until(() => first.lag() === 0);
      await produce(first.topic, [
        { value: "c", partition: 0 },
        { value: "d", partition: 1 },
      ]);
      await until(() => first.lag() === 0);
      const handled = [...first.received.ids("handled"), ...second.received.ids("handled")];
      expect(handled.toSorted()).toEqual(["a", "b", "c", "d"]);
    });

    test("with a store handles nothing twice in a rebalance", async () => {
      const store = memoryStore();
      const { opened, open } = gate();
      const first = setup(() => opened, { store }, { partitions: 2 });
      await first.worker.start();
      await produce(first.topic, [
        { value: "a", partition: 0 },
        { value: "b", partition: 1 },
      ]);
      await until(() => first.consumer.active === 2);
      const second = setup(() => "done", { store }, { topic: first.topic });
      await second.worker.start();
      if (!flavor.drains) await second.received.count("defer", 1);
      open();
      await until(() => first.lag() === 0);
      expect(first.received.ids("handled").toSorted()).toEqual(["a", "b"]);
      expect(second.received.ids("handled")).toEqual([]);
    });

    test("that stops gives back what does not end, without using an attempt", async () => {
      const seen = setup(
        (_, { signal }) =>
          new Promise((__, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          ),
      );
      await seen.worker.start();
      await seen.add("a");
      await until(() => seen.consumer.active === 1);
      await seen.worker.stop(0);
      expect(seen.received.ofType("defer")).toMatchObject([{ by: "stop" }]);
      const attempts: number[] = [];
      const next = setup(
        (_, { attempt }) => void attempts.push(attempt),
        {},
        { topic: seen.topic },
      );
      await next.worker.start();
      await next.received.count("handled", 1);
      expect(attempts).toEqual([1]);
    });
  });

  test("a restart of Kafka loses nothing", async () => {
    const seen = setup((_, { attempt }) =>
      attempt === 1 ? Promise.reject(new Error("fails once")) : "done",
    );
    await seen.worker.start();
    const ids = Array.from({ length: 60 }, (_, index) => `m${index}`);
    await seen.add(...ids);
    await seen.received.count("retry", 20);
    await server.stop();
    if (flavor.reports) await seen.received.count("broker-failed", 1);
    await server.start();
    await until(() => new Set(seen.received.ids("handled")).size === ids.length);
    if (flavor.reports) await seen.received.count("broker-recovered", 1);
    await until(() => seen.lag() === 0);
  });
});

test("a consumer that is killed repeatedly loses nothing", { timeout: 120_000 }, async () => {
  const topic = "kills";
  server.createTopic(topic, 3);
  const publish = (ids: readonly string[]) =>
    produce(
      topic,
      ids.map((value) => ({ value })),
    );
  const isEmpty = async () => {
    const own = server.topics.filter((name) => name.startsWith(topic) && !name.endsWith(".dead"));
    return own.length > 1 && own.every((name) => server.lag("billing", name) === 0);
  };
  await killConsumers(["kafka", server.address, topic], publish, isEmpty);
  expect(server.records(`${topic}.billing.dead`)).toEqual([]);
});

describe("options", () => {
  const mistakes: [object, string][] = [
    [{ topic: "t", group: "g" }, "client is required, got undefined"],
    [
      { client: {}, topic: "t", group: "g" },
      "client must be a Kafka of kafkajs or of @confluentinc",
    ],
    [{ topic: "a b", group: "g" }, "topic must be 1 to 100 characters of A-Z a-z 0-9 . _ -"],
    [{ topic: "t", group: "g", order: "any" }, "order must be one of partition, key, none"],
    [{ topic: "t", grup: "g" }, 'did you mean "group"?'],
  ];

  test.each(mistakes)("refuses %o", (options, text) => {
    const consumer = consume<KafkaBody>(() => undefined);
    expect(() => kafka(consumer, options as KafkaOptions)).toThrow(text);
  });
});
