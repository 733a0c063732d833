/**
 * Backlog: two nodes on a store in which many tasks wait for tomorrow, in many destinations. One of them
 * is killed in the middle. A task that is due at once must be sent within a second all the time, no lease
 * may be lost, and an idle node must cost the server nothing.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { postgresStore, redisStore } from "@redrive/service";
import { quantile, setting } from "../service-parts.mjs";

const TASKS = setting("BENCH_BACKLOG", 1_000_000);
const DESTINATIONS = setting("BENCH_BACKLOG_DESTINATIONS", 100_000);
const SECONDS = setting("BENCH_BACKLOG_SECONDS", 60);
const IDLE_SECONDS = setting("BENCH_IDLE_SECONDS", 30);
/** What the server does without any node. */
const BASE_SECONDS = 10;
const BATCH = 500;
const CALLERS = 4;
const DAY_MS = 86_400_000;

const NODE = new URL("./backlog-node.mjs", import.meta.url);
const EMPTY = {
  expiresAt: null,
  destinations: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  wakeUps: [],
  documents: [],
};

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {"postgres" | "redis"} kind
 */
export async function measureBacklog(servers, kind) {
  const { url, cpuMs } = await servers.add(kind);
  const storeUrl = kind === "redis" ? `${url}?durability=relaxed` : url;
  await fill(storeUrl, kind);
  // Otherwise the server would do this while it is measured.
  if (kind === "postgres") await servers.vacuum(url);
  const baseFrom = await cpuMs();
  await sleep(BASE_SECONDS * 1000);
  const baseCores = ((await cpuMs()) - baseFrom) / (BASE_SECONDS * 1000);
  const sink = await startSink();
  const first = await startNode(storeUrl);
  const second = await startNode(storeUrl);
  await sleep(5000);
  const idleFrom = await cpuMs();
  await sleep(IDLE_SECONDS * 1000);
  const busyCores = ((await cpuMs()) - idleFrom) / (IDLE_SECONDS * 1000);
  const idleCores = Math.max(0, busyCores - baseCores) / 2;
  /** @type {number[]} */
  const lateMs = [];
  for (let number = 0; number < SECONDS; number++) {
    if (number === Math.floor(SECONDS / 2)) second.kill();
    const id = `lone-${number}`;
    const arrived = sink.arrival(id);
    const sentAt = Date.now();
    first.send({ enqueue: id, targetUrl: `${sink.origin}/${id}` });
    lateMs.push((await arrived) - sentAt);
    await sleep(Math.max(0, 1000 - (Date.now() - sentAt)));
  }
  const leasesLost = await first.leasesLost();
  await first.stop();
  sink.stop();
  // Until the lease of the killed node has ended, its partitions belong to nobody.
  return {
    idleCores,
    p50: quantile(lateMs, 0.5),
    p90: quantile(lateMs, 0.9),
    max: Math.max(...lateMs),
    leasesLost,
  };
}

/** @param {string} url @param {"postgres" | "redis"} kind */
async function fill(url, kind) {
  const store = await (kind === "postgres" ? postgresStore : redisStore)(url);
  let made = 0;
  const startMs = performance.now();
  const fillSome = async () => {
    while (made < TASKS) {
      const from = made;
      made += BATCH;
      const now = Date.now();
      const creates = Array.from({ length: BATCH }, (_, index) => ({
        task: taskOf(from + index, now),
        fingerprint: null,
        claimVersion: null,
      }));
      await store.commit({ now, nodeId: `fill-${kind}`, ...EMPTY, creates });
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, fillSome));
  await store.close();
  const seconds = (performance.now() - startMs) / 1000;
  console.log(
    `${kind}: stored ${TASKS} tasks of ${DESTINATIONS} destinations in ${seconds.toFixed(0)} s`,
  );
}

/** @param {number} number @param {number} now */
function taskOf(number, now) {
  const byte = (number % 256).toString(16).padStart(2, "0");
  const destination = `https://d${number % DESTINATIONS}.example`;
  return {
    taskId: `01900000-0000-7000-80${byte}-${String(number).padStart(12, "0")}`,
    tenantId: "default",
    idempotencyKey: null,
    destination,
    targetUrl: `${destination}/`,
    method: "POST",
    headers: {},
    body: null,
    bodyRef: null,
    policyId: "background",
    policyVersion: 0,
    idempotent: true,
    deadlineAt: null,
    createdAt: now,
    scheduledAt: now + DAY_MS + (number % 1000),
    labels: {},
    callbackUrl: null,
    redrivenFrom: null,
  };
}

async function startSink() {
  /** @type {Map<string, (at: number) => void>} */
  const waiting = new Map();
  const server = createServer((request, response) => {
    waiting.get(String(request.url).slice(1))?.(Date.now());
    request.resume();
    response.end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    origin: `http://127.0.0.1:${port}`,
    /** @param {string} id @returns {Promise<number>} */
    arrival: (id) => new Promise((resolve) => waiting.set(id, resolve)),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** @param {string} url */
async function startNode(url) {
  const child = fork(NODE, [url], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  await once(child, "message");
  return {
    /** @param {object} message */
    send: (message) => child.send(message),
    kill: () => child.kill("SIGKILL"),
    /** @returns {Promise<number>} */
    async leasesLost() {
      child.send({ asks: "leases" });
      const [{ leasesLost }] = await once(child, "message");
      return leasesLost;
    },
    async stop() {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    },
  };
}
