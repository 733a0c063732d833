/** Redis Streams: plain loops of ioredis, and the consumer with its adapter, on one real Redis. */
import { Redis } from "ioredis";
import { consume, redisStreams } from "redrive/consume";
import { startRedis } from "../../test/servers/redis.ts";

const GROUP = "bench";
const FILL_AT_ONCE = 1000;

/** @returns {Promise<import("./run.mjs").Place>} */
export async function startRedisPlace() {
  // The loops are compared, not the disk.
  const server = await startRedis({ appendfsync: "everysec" });
  const client = new Redis(server.url);
  let queues = 0;

  return {
    async fill(count) {
      const stream = `bench-${++queues}`;
      for (let done = 0; done < count; done += FILL_AT_ONCE) {
        const pipeline = client.pipeline();
        for (let n = done; n < Math.min(count, done + FILL_AT_ONCE); n++) {
          pipeline.xadd(stream, "*", "id", String(n), "body", "x".repeat(200));
        }
        await pipeline.exec();
      }
      await client.xgroup("CREATE", stream, GROUP, "0");
      return stream;
    },

    loops: {
      // As the documentation of Redis does it: each message is acknowledged after its handler.
      "XREADGROUP, XACK each": plainLoop(client, async (stream, ids, handle) => {
        await Promise.all(
          ids.map(async (id) => {
            await handle();
            await client.xack(stream, GROUP, id);
          }),
        );
      }),

      // The least that a loop can do: a message is delivered again if another one of its batch crashes.
      "XREADGROUP, XACK per batch": plainLoop(client, async (stream, ids, handle) => {
        await Promise.all(ids.map(() => handle()));
        await client.xack(stream, GROUP, ...ids);
      }),

      async "redrive/consume"(stream, concurrency, handle) {
        const worker = redisStreams(consume(handle, { concurrency }), {
          client,
          stream,
          group: GROUP,
        });
        await worker.start();
        return worker;
      },
    },

    async stop() {
      client.disconnect();
      await server.stop();
    },
  };
}

/**
 * Reads a batch, and the next one when all of its messages are acknowledged.
 * @param {Redis} client
 * @param {(stream: string, ids: string[], handle: () => Promise<void>) => Promise<void>} handleBatch
 * @returns {import("./run.mjs").Loop}
 */
function plainLoop(client, handleBatch) {
  return async (stream, concurrency, handle) => {
    const reader = client.duplicate();
    let isStopping = false;
    const run = async () => {
      while (!isStopping) {
        const reply = /** @type {[string, [string, string[]][]][] | null} */ (
          await reader.xreadgroup(
            ...["GROUP", GROUP, "me", "COUNT", String(concurrency)],
            ...["BLOCK", "100", "STREAMS", stream, ">"],
          )
        );
        const ids = (reply?.[0]?.[1] ?? []).map(([id]) => id);
        if (ids.length > 0) await handleBatch(stream, ids, handle);
      }
    };
    const running = run();
    return {
      async stop() {
        isStopping = true;
        await running;
        reader.disconnect();
      },
    };
  };
}
