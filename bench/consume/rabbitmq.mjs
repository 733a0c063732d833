/** RabbitMQ: the plain loop of amqplib, and the consumer with its adapter, on one real RabbitMQ. */
import { connect } from "amqplib";
import { consume, rabbitmq } from "redrive/consume";
import { startRabbitmq } from "../../test/servers/rabbitmq.ts";

const QUORUM = { durable: true, arguments: { "x-queue-type": "quorum" } };

/** @returns {Promise<import("./run.mjs").Place>} */
export async function startRabbitPlace() {
  const server = await startRabbitmq();
  const connection = await connect(server.url);
  let queues = 0;

  return {
    async fill(count) {
      const queue = `bench-${++queues}`;
      const channel = await connection.createConfirmChannel();
      await channel.assertQueue(queue, QUORUM);
      const content = Buffer.alloc(200, "x");
      for (let n = 0; n < count; n++) {
        channel.sendToQueue(queue, content, { messageId: String(n), persistent: true });
      }
      await channel.waitForConfirms();
      await channel.close();
      return queue;
    },

    loops: {
      async "consume, ack each"(queue, concurrency, handle) {
        const own = await connect(server.url);
        const channel = await own.createChannel();
        await channel.prefetch(concurrency);
        await channel.consume(queue, (message) => {
          if (message !== null) void handle().then(() => channel.ack(message));
        });
        return {
          async stop() {
            // The last handler has ended, but not yet its acknowledgment.
            await new Promise((resolve) => setImmediate(resolve));
            await own.close();
          },
        };
      },

      async "redrive/consume"(queue, concurrency, handle) {
        const worker = rabbitmq(consume(handle, { concurrency }), {
          connect: () => connect(server.url),
          queue,
        });
        await worker.start();
        return worker;
      },
    },

    async stop() {
      await connection.close();
      await server.stop();
    },
  };
}
