/**
 * Fleet: how much two nodes on one store deliver together, compared with one node. All of them share
 * the cores of this machine, so the measure is what a second node costs, not what it adds.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { startContender } from "./child.mjs";
import { storeUrl } from "./peers.mjs";
import { ROUNDS, TASKS, WARMUP } from "./settings.mjs";

/** Nodes exchange about once a second; after a few exchanges they have divided the partitions. */
const EXCHANGES_MS = 3_000;

/**
 * Delivered after each change of the nodes, and not measured: a node that has joined has a small adaptive
 * limit, which grows with its attempts.
 */
const AFTER_CHANGE = 6_000;

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {Awaited<ReturnType<typeof import("../service-parts.mjs").startSink>>} sink
 * @param {"postgres" | "redis"} kind
 * @returns {Promise<{ one: number[], two: number[] }>} tasks a second
 */
export async function measureFleet(servers, sink, kind) {
  const { url } = await servers.add(kind);
  const open = (/** @type {string} */ name) =>
    startContender(name, "redrive", storeUrl(url, "redrive"), sink.origin);
  const first = await open(`${kind}, first node`);
  const second = await open(`${kind}, second node`);
  /** @type {{ one: number[], two: number[] }} */
  const rates = { one: [], two: [] };
  const measured = async (/** @type {number} */ tasks) => {
    await deliver(sink, first, AFTER_CHANGE);
    return deliver(sink, first, tasks);
  };
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      const tasks = round === 0 ? WARMUP : TASKS;
      const two = await measured(tasks);
      await second.measure("leave");
      await sleep(EXCHANGES_MS);
      const one = await measured(tasks);
      await second.measure("join");
      await sleep(EXCHANGES_MS);
      console.log(`${kind}: one node ${one.toFixed(0)}/s, two nodes ${two.toFixed(0)}/s`);
      if (round === 0) continue;
      rates.one.push(one);
      rates.two.push(two);
    }
  } finally {
    await second.stop();
    await first.stop();
  }
  return rates;
}

/**
 * From the resume to the last arrival at the sink. The tasks have keys, so they are in the partitions of
 * all nodes; the first node creates them.
 * @param {Awaited<ReturnType<typeof import("../service-parts.mjs").startSink>>} sink
 * @param {import("./child.mjs").Contender} first
 * @param {number} tasks
 */
async function deliver(sink, first, tasks) {
  await first.measure("keyed", tasks);
  await (await fetch(`${sink.origin}/received`)).json();
  const reached = sink.reaches(tasks);
  const startMs = performance.now();
  await first.measure("start");
  await reached;
  const rate = tasks / ((performance.now() - startMs) / 1000);
  await first.measure("stop");
  return rate;
}
