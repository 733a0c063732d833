/**
 * Destinations: the time of a commit that claims from ten destinations, for stores whose waiting tasks
 * are divided among ten to ten thousand of them. The number of waiting tasks is the same.
 */
import { postgresStore, redisStore } from "@redrive/service";
import { median } from "../service-parts.mjs";
import { storeUrl } from "./peers.mjs";
import { DESTINATIONS } from "./settings.mjs";

const TASKS = 20_000;
const LANES = 10;
const COMMITS = 60;
const EMPTY = {
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  expiresAt: null,
  wakeUps: [],
  documents: [],
};

/** @typedef {import("@redrive/service").Store} Store */

/**
 * Interleaved: each number of destinations takes its turn.
 * @param {import("./servers.mjs").Servers} servers
 * @param {"postgres" | "redis"} kind
 * @returns {Promise<Map<number, number>>} the median time of a commit in ms, by number of destinations
 */
export async function measureDestinations(servers, kind) {
  /** @type {{ count: number, store: Store, timesMs: number[] }[]} */
  const sides = [];
  for (const count of DESTINATIONS) {
    const { url } = await servers.add(kind);
    const open = kind === "postgres" ? postgresStore : redisStore;
    const store = await open(storeUrl(url, "redrive"));
    await fill(store, count);
    sides.push({ count, store, timesMs: [] });
    console.log(`${kind}: ${TASKS} tasks of ${count} destinations are stored`);
  }
  // The first claims warm up, and each claim takes other destinations.
  for (let round = -LANES; round < COMMITS; round++) {
    for (const { count, store, timesMs } of sides) {
      const first = (round + LANES) * LANES;
      const startMs = performance.now();
      await commit(store, {
        claims: Array.from({ length: LANES }, (_, n) => claim((first + n) % count)),
      });
      if (round >= 0) timesMs.push(performance.now() - startMs);
    }
  }
  for (const { store } of sides) await store.close();
  return new Map(sides.map(({ count, timesMs }) => [count, median(timesMs)]));
}

/** @param {Store} store @param {Partial<Parameters<Store["commit"]>[0]>} items */
function commit(store, items) {
  return store.commit({ now: Date.now(), nodeId: "bench", ...EMPTY, ...items });
}

/** @param {number} number */
const nameOf = (number) => `https://d${number}.example`;

/** All in one partition, so that the partitions of a claim do not matter. @param {Store} store @param {number} count */
async function fill(store, count) {
  const now = Date.now();
  for (let made = 0; made < TASKS; made += 250) {
    const creates = Array.from({ length: 250 }, (_, index) => ({
      task: {
        taskId: `00000000-0000-7000-8000-${String(made + index).padStart(12, "0")}`,
        tenantId: "default",
        idempotencyKey: null,
        destination: nameOf((made + index) % count),
        targetUrl: `${nameOf((made + index) % count)}/`,
        method: "POST",
        headers: {},
        body: null,
        bodyRef: null,
        policyId: "background",
        policyVersion: 0,
        idempotent: true,
        deadlineAt: null,
        createdAt: now,
        scheduledAt: now,
        labels: {},
        callbackUrl: null,
        redrivenFrom: null,
      },
      fingerprint: null,
      claimVersion: null,
    }));
    await commit(store, { creates });
  }
}

/** One task of a destination. @param {number} number @returns {Parameters<Store["commit"]>[0]["claims"][number]} */
function claim(number) {
  const place = {
    tenantId: "default",
    destination: nameOf(number),
    lane: /** @type {const} */ ("first"),
  };
  return { ...place, partitions: [0], limit: 1, aheadMs: 0, aheadLimit: 0, version: 0 };
}
