/**
 * A process that consumes messages, for tests that kill it. Handlers take a few milliseconds, and every
 * fifth first attempt fails. It prints `handled <id>` before each message is acknowledged.
 *
 * Usage: consumer-child.mjs redis <url> <stream>, consumer-child.mjs rabbitmq <url> <queue>, or
 * consumer-child.mjs kafka <address> <topic>.
 */
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { consume, kafka, rabbitmq, redisStreams } from "redrive/consume";

const [broker, url, queue] = /** @type {[string, string, string]} */ (process.argv.slice(2));

const options = {
  policy: { maxAttempts: 50, initialDelayMs: 20, maxDelayMs: 100, jitterType: "NONE" },
  minDelayMs: 10,
  maxLost: 100,
  concurrency: 8,
};

/**
 * @param {{ id: string }} message
 * @param {{ attempt: number }} context
 */
async function handler({ id }, { attempt }) {
  await sleep(3);
  if (attempt === 1 && Number(/\d+$/.exec(id)?.[0]) % 5 === 0) throw new Error("fails once");
  writeSync(1, `handled ${id}\n`);
}

await (await createWorker()).start();
writeSync(1, "ready\n");

async function createWorker() {
  const consumer = consume(handler, /** @type {any} */ (options));
  if (broker === "redis") {
    const { Redis } = await import("ioredis");
    const client = new Redis(url);
    // The shortest time after which another process takes over.
    const place = { stream: queue, group: "billing", idField: "id", idleMs: 1000 };
    return redisStreams(consumer, { client, ...place });
  }
  if (broker === "kafka") {
    const { Kafka, logLevel } = await import("kafkajs");
    const client = new Kafka({ brokers: [url], logLevel: logLevel.NOTHING });
    return kafka(consumer, {
      client,
      topic: queue,
      group: "billing",
      order: "none",
      commitMs: 10,
      // A process that was killed is noticed within a second.
      consumerConfig: { sessionTimeout: 1000, heartbeatInterval: 100, maxWaitTimeInMs: 20 },
      idOf: ({ value }) => (value === null ? undefined : new TextDecoder().decode(value)),
    });
  }
  const { connect } = await import("amqplib");
  return rabbitmq(consumer, { connect: () => connect(url), queue });
}
