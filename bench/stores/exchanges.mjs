/**
 * Exchanges: what the exchange of each second costs a server, with 1 to 32 nodes that report nothing, as
 * nodes with default limits do, or 20 destinations with a limit that lacks slots. The nodes are simulated;
 * the server is real.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { postgresStore, redisStore } from "@redrive/service";
import { quantile, setting } from "../service-parts.mjs";

const SECONDS = setting("BENCH_EXCHANGE_SECONDS", 10);
const NODES = [2, 16, 32];
const LACKING = [0, 20];

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {"postgres" | "redis"} kind
 */
export async function measureExchanges(servers, kind) {
  const rows = [];
  for (const nodes of NODES) {
    for (const lacking of LACKING) rows.push(await measure(servers, kind, nodes, lacking));
  }
  return rows;
}

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {"postgres" | "redis"} kind
 * @param {number} nodes
 * @param {number} lacking
 */
async function measure(servers, kind, nodes, lacking) {
  const { url, cpuMs } = await servers.add(kind);
  const storeUrl = kind === "redis" ? `${url}?durability=relaxed` : url;
  const open = kind === "postgres" ? postgresStore : redisStore;
  /** @type {import("@redrive/service").Store[]} */
  const stores = [];
  for (let at = 0; at < nodes; at++)
    stores.push(await open(`${storeUrl}${kind === "postgres" ? "?connections=2" : ""}`));
  /** @type {number[]} */
  const tookMs = [];
  let isOver = false;
  const run = async (/** @type {number} */ number) => {
    const store = stores[number];
    for (let round = 1; !isOver; round++) {
      const startMs = performance.now();
      await store?.renew(reportOf(number, round, lacking));
      const ms = performance.now() - startMs;
      if (round > 2) tookMs.push(ms);
      await sleep(Math.max(0, 1000 - ms));
    }
  };
  const running = Array.from({ length: nodes }, async (_, number) => {
    await sleep((1000 * number) / nodes);
    await run(number);
  });
  await sleep(3000);
  const before = await cpuMs();
  await sleep(SECONDS * 1000);
  const cores = ((await cpuMs()) - before) / (SECONDS * 1000);
  isOver = true;
  await Promise.all(running);
  for (const store of stores) await store.close();
  return { nodes, lacking, p50: quantile(tookMs, 0.5), p99: quantile(tookMs, 0.99), cores };
}

/** @param {number} number @param {number} round @param {number} lacking */
function reportOf(number, round, lacking) {
  return {
    nodeId: `node-${number}`,
    round,
    now: Date.now(),
    leaseMs: 10_000,
    isLeaving: false,
    takesAll: false,
    destinations: Array.from({ length: lacking }, (_, at) => ({
      tenantId: "default",
      name: `limited-${at}`,
      version: 0,
      calls: 10,
      failures: 0,
      slowCalls: 0,
      demand: 50,
      slots: { limit: 50, wanted: 50, used: 1 },
      retrySlots: null,
      rate: null,
      retryRate: null,
    })),
  };
}
