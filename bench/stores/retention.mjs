/**
 * Retention: how many old tasks a second one node removes that does nothing else. It must be faster than
 * the fastest drain of the same store, or the store grows while it is full of work.
 */
import { setTimeout as pause } from "node:timers/promises";
import { createRedrive, postgresStore, redisStore } from "@redrive/service";
import { addOldTasks } from "../service-old-tasks.mjs";
import { setting } from "../service-parts.mjs";
import { storeUrl } from "./peers.mjs";

const TASKS = setting("BENCH_OLD_TASKS", 100_000);
/** The tasks have been due for removal for this long at most, and for ten minutes at least. */
const OLDEST_S = 86_400;
const NEWEST_S = 600;
const TENANT = "default";

/**
 * The time begins when the first task is gone, and ends with the last one.
 * @param {import("./servers.mjs").Servers} servers
 * @param {"postgres" | "redis"} kind
 * @returns {Promise<number>} removed tasks a second
 */
export async function measureRetention(servers, kind) {
  const { url: server, cpuMs } = await servers.add(kind);
  const url = storeUrl(server, "redrive");
  const store = await (kind === "postgres" ? postgresStore : redisStore)(url);
  const seconds = OLDEST_S - NEWEST_S;
  const keyed = (/** @type {number} */ n) => (n % 2 === 0 ? `key-${n}` : null);
  await addOldTasks(store, Date.now() - OLDEST_S * 1000, TASKS / seconds, seconds, keyed);
  await servers.settle();
  const left = async () => (await store.query.count(TENANT)).SUCCEEDED ?? 0;
  const stored = await left();
  console.log(`${kind}: ${stored} old tasks are stored`);
  const cpuBefore = await cpuMs();
  const redrive = await createRedrive({ store: url });
  let first = stored;
  for (; first === stored; first = await left()) await pause(2);
  const startMs = performance.now();
  while ((await left()) > 0) await pause(20);
  const perSecond = (1000 * first) / (performance.now() - startMs);
  await redrive.stop();
  await store.close();
  const cpuUs = (1000 * ((await cpuMs()) - cpuBefore)) / stored;
  console.log(
    `${kind}: retention removes ${perSecond.toFixed(0)} tasks/s, with ${cpuUs.toFixed(0)} us of the server for each`,
  );
  return perSecond;
}
