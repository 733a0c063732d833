/**
 * Brokers: what a scenario publishes to and consumes from, each behind the adapter for it. The library is
 * an argument, so that a scenario compares two versions of it.
 */

import type * as Redrive from "redrive";
import type * as Consume from "redrive/consume";
import type { Random } from "redrive/testing";
import type { ScenarioClock } from "./clock.ts";
import { MemoryKafka } from "./memory-kafka.ts";
import { MemoryRabbit } from "./memory-rabbitmq.ts";
import { MemoryRedis } from "./memory-redis.ts";
import { MemoryQueue, MemorySqs, type QueueOptions } from "./memory-sqs.ts";

/** The parts of the library that a scenario uses. */
export type Library = typeof Consume & Pick<typeof Redrive, "destination">;

// biome-ignore lint/suspicious/noExplicitAny: the consumers of all brokers have different bodies
type AnyConsumer = Consume.Consumer<any>;

export interface Broker {
  publish(id: string): void;
  /** Starts one more consumer, as another process would. */
  start(consumer: AnyConsumer): Promise<Consume.Worker>;
  /** Ids of the dead letters. */
  deadLetters(): readonly string[];
}

export interface BrokerPlace {
  readonly library: Library;
  readonly clock: ScenarioClock;
  readonly random: Random;
}

export type OpenBroker = (place: BrokerPlace) => Broker;

export const SQS_URL = "https://sqs.test/orders";
const SQS_DEAD_URL = "https://sqs.test/dead";

/** `watch`: gets the queue when it is created. */
export function sqsWith(
  options: QueueOptions,
  watch: (queue: MemoryQueue, clock: ScenarioClock) => void = () => undefined,
): OpenBroker {
  return ({ library, clock, random }) => {
    const dead = new MemoryQueue(clock, random);
    const queue = new MemoryQueue(clock, random.fork("order"), { ...options, deadLetters: dead });
    watch(queue, clock);
    const client = new MemorySqs(clock, { [SQS_URL]: queue, [SQS_DEAD_URL]: dead });
    return {
      publish: (id) => void queue.send({ MessageBody: id }),
      async start(consumer) {
        const worker = library.sqs(consumer, {
          client: client as unknown as Consume.SqsClient,
          queueUrl: SQS_URL,
          deadLetterQueueUrl: SQS_DEAD_URL,
          idOf: ({ Body: id }) => id,
        });
        await worker.start();
        return worker;
      },
      deadLetters: () => dead.messages.map(({ body }) => body),
    };
  };
}

const RABBIT_QUEUE = "orders";

const rabbitBroker: OpenBroker = ({ library, clock }) => {
  const rabbit = new MemoryRabbit(clock);
  rabbit.declare(RABBIT_QUEUE, { arguments: { "x-queue-type": "quorum" } });
  const dead: string[] = [];
  return {
    publish: (id) => void rabbit.publish(RABBIT_QUEUE, new Uint8Array(0), { messageId: id }),
    async start(consumer) {
      const worker = library.rabbitmq(consumer, {
        connect: () => rabbit.connect() as unknown as Promise<Consume.AmqpConnection>,
        queue: RABBIT_QUEUE,
      });
      await worker.start();
      const graves = await (await rabbit.connect()).createConfirmChannel();
      await graves.consume("orders.dead", (message) => {
        if (message === null) return;
        dead.push(String(message.properties["messageId"]));
        graves.ack(message);
      });
      return worker;
    },
    deadLetters: () => dead,
  };
};

const STREAM = "orders";
const GROUP = "billing";

const redisBroker: OpenBroker = ({ library, clock }) => {
  const redis = new MemoryRedis(clock);
  let processes = 0;
  return {
    publish: (id) => void redis.xadd(STREAM, ["id", id]),
    async start(consumer) {
      const worker = library.redisStreams(consumer, {
        client: redis.client(),
        stream: STREAM,
        group: GROUP,
        idField: "id",
        consumerName: `process-${++processes}`,
      });
      await worker.start();
      return worker;
    },
    deadLetters: () => redis.entries(`{${STREAM}}:${GROUP}:dead`).map(([, [, id]]) => id ?? ""),
  };
};

/** As many as there are slots: by default, the records of a partition are handled one by one. */
const PARTITIONS = 12;

const kafkaBroker: OpenBroker = ({ library, clock }) => {
  const topics = new MemoryKafka(clock, PARTITIONS);
  topics.create("orders");
  return {
    publish: (id) => topics.append("orders", { value: id }),
    async start(consumer) {
      const worker = library.kafka(consumer, {
        client: topics.client() as Consume.KafkaClient,
        topic: "orders",
        group: GROUP,
        idOf: ({ value }) => (value === null ? undefined : new TextDecoder().decode(value)),
      });
      await worker.start();
      return worker;
    },
    deadLetters: () =>
      topics
        .records(`orders.${GROUP}.dead`)
        .map(({ value }) => new TextDecoder().decode(value ?? undefined)),
  };
};

interface Held {
  readonly id: string;
  readonly state?: Consume.MessageState;
}

/** Loops of a program's own over `handle`, with a queue in memory. */
function ownLoop(run: (loop: OwnQueue, consumer: AnyConsumer) => Consume.Worker): OpenBroker {
  return ({ clock }) => {
    const queue = new OwnQueue(clock);
    return {
      publish: (id) => queue.add({ id }),
      start: async (consumer) => run(queue, consumer),
      deadLetters: () => queue.dead,
    };
  };
}

class OwnQueue {
  readonly dead: string[] = [];
  readonly #clock: ScenarioClock;
  #ready: Held[] = [];
  #head = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(clock: ScenarioClock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#ready.length - this.#head;
  }

  add(message: Held): void {
    this.#ready.push(message);
    this.#waiting.shift()?.();
  }

  async next(): Promise<Held> {
    while (this.size === 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const found = this.#ready[this.#head++] as Held;
    if (this.#head > 10_000) {
      this.#ready = this.#ready.slice(this.#head);
      this.#head = 0;
    }
    return found;
  }

  carryOut({ id }: Held, disposition: Consume.Disposition): void {
    if (disposition.kind === "dead-letter") this.dead.push(id);
    if (!("delayMs" in disposition)) return;
    const { state, delayMs } = disposition;
    this.#clock.alarm(delayMs, () => this.add({ id, state }));
  }
}

/** As many loops as there are slots: each waits for the disposition of its message. */
const ownLoops = ownLoop((queue, consumer) => {
  const loop = async () => {
    for (;;) {
      const message = await queue.next();
      queue.carryOut(message, await consumer.handle({ ...message, body: undefined }));
    }
  };
  for (let n = 0; n < consumer.concurrency; n++) void loop();
  return { start: async () => undefined, stop: (drainMs) => consumer.stop(drainMs) };
});

/** One loop that asks for messages as far as the consumer has free slots. */
const ownFreeLoop = ownLoop((queue, consumer) => {
  let wake: () => void = () => undefined;
  const loop = async () => {
    for (;;) {
      const message = await queue.next();
      while (consumer.free === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      void consumer.handle({ ...message, body: undefined }).then((disposition) => {
        queue.carryOut(message, disposition);
        wake();
      });
    }
  };
  // An older version has no limit that changes.
  consumer.onLimit?.(() => wake());
  void loop();
  return { start: async () => undefined, stop: (drainMs) => consumer.stop(drainMs) };
});

export const brokers = {
  "SQS, oldest first": sqsWith({ order: "oldest" }),
  "SQS, random order": sqsWith({ order: "random" }),
  RabbitMQ: rabbitBroker,
  "Redis Streams": redisBroker,
  Kafka: kafkaBroker,
  "ten loops over handle": ownLoops,
  "one loop over handle": ownFreeLoop,
} as const satisfies Record<string, OpenBroker>;

export type BrokerName = keyof typeof brokers;
