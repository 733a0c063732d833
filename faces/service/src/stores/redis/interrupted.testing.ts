/** Interrupted: commits of a Redis store whose connection is closed at a random moment. */
import { setTimeout as sleep } from "node:timers/promises";
import { seededRandom } from "@redrive/core";
import type { Batch } from "../../model/batch.ts";
import type { InterruptibleStore } from "../conformance-interrupted.testing.ts";
import { eventually, type RedisServer } from "./redis-server.testing.ts";
import { redisStore } from "./redis-store.ts";

/** A commit on one server takes about this long. */
const COMMIT_MS = 3;

export async function interruptible(
  url: string,
  servers: readonly RedisServer[],
  round: number,
): Promise<InterruptibleStore> {
  const store = await redisStore(url);
  const random = seededRandom(`round ${round}`);
  async function interrupt(batch: Batch): Promise<void> {
    const before = await connections(servers);
    const victim = await redisStore(url);
    const commit = victim.commit(batch).catch(() => {});
    await sleep(random.next() * COMMIT_MS);
    await victim.close();
    await commit;
    // A server may still do what it has received, until it finds that the connection is closed.
    await eventually("the connections are closed", async () => {
      return (await connections(servers)) <= before;
    });
  }
  return { store, interrupt };
}

async function connections(servers: readonly RedisServer[]): Promise<number> {
  const lists = await Promise.all(servers.map((server) => server.command("client", "list")));
  return lists.reduce<number>((sum, list) => sum + String(list).trim().split("\n").length, 0);
}
