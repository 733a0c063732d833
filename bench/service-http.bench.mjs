/**
 * `npm run bench -- service-http`: measures the cost of the HTTP server, with fsync and all guards.
 * **Enqueue**: 64 callers create tasks over HTTP, as a share of the same service with a store that
 * keeps nothing (limit 0.5). **Live**: tasks are created one at a time while others are delivered, as
 * a share of a bare undici pool that sends the same bytes to the same sink (limit 0.15).
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createRedrive, memoryStore } from "@redrive/service";
import { createApp, listenApp } from "@redrive/service/http";
import { printVerdicts } from "./bars.mjs";
import { BODY, inFolder, median, raw, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 20_000);
const ROUNDS = setting("BENCH_ROUNDS", 5);
const FAR_MS = 86_400_000;

/** @typedef {import("@redrive/service").Redrive} Redrive */

const callers = fork(new URL("./service-http-callers.mjs", import.meta.url), {
  stdio: ["ignore", "inherit", "inherit", "ipc"],
});

/** Requests a second. @param {string} url @param {object} task */
async function post(url, task) {
  callers.send({ url, body: JSON.stringify(task), count: TASKS });
  const [{ seconds, refused }] = await once(callers, "message");
  if (refused > 0) throw new Error(`${refused} of ${TASKS} tasks were refused`);
  return TASKS / seconds;
}

/** Runs `work` with the HTTP server of a service. @template T
 * @param {Redrive} redrive @param {(url: string) => Promise<T>} work @returns {Promise<T>} */
async function fronted(redrive, work) {
  const app = createApp(redrive);
  const url = await listenApp(app, { port: 0 });
  try {
    return await work(url);
  } finally {
    await app.close();
  }
}

/**
 * A store that accepts every task and keeps none. The rest of the service is the same, so the
 * difference is the cost of storing.
 * @returns {import("@redrive/service").Store}
 */
function keepsNothing() {
  const inner = memoryStore();
  const created = { kind: /** @type {const} */ ("created"), started: null, row: null };
  return {
    ...inner,
    commit: (batch) =>
      batch.creates.length === 0
        ? inner.commit(batch)
        : Promise.resolve({ ...NOTHING, creates: batch.creates.map(() => created) }),
  };
}

const NOTHING = {
  destinations: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  wakeUps: [],
  documents: [],
};

const text = BODY.toString();

/** @param {string} folder @param {number} round */
async function enqueueShare(folder, round) {
  const task = {
    targetUrl: "http://127.0.0.1:7999/",
    body: text,
    scheduledAt: Date.now() + FAR_MS,
  };
  const empty = await createRedrive({ store: keepsNothing() });
  const base = await fronted(empty, (url) => post(url, task));
  await empty.stop();
  const redrive = await createRedrive({ store: `sqlite:${join(folder, `enqueue-${round}.db`)}` });
  const own = await fronted(redrive, (url) => post(url, task));
  await redrive.stop();
  console.log(
    `enqueue: stores nothing ${base.toFixed(0)}/s, ours ${own.toFixed(0)}/s, share ${(own / base).toFixed(2)}`,
  );
  return own / base;
}

/** @param {string} folder @param {string} origin @param {number} round */
async function liveShare(folder, origin, round) {
  const base = await raw(origin, TASKS);
  const redrive = await createRedrive({ store: `sqlite:${join(folder, `live-${round}.db`)}` });
  let left = TASKS;
  const delivered = new Promise((resolve) => {
    redrive.onEvent(({ type }) => {
      if (type === "task.succeeded" && --left === 0) resolve(undefined);
    });
  });
  const startMs = performance.now();
  await fronted(redrive, async (url) => {
    await post(url, { targetUrl: `${origin}/`, body: text });
    await delivered;
  });
  const own = TASKS / ((performance.now() - startMs) / 1000);
  await redrive.stop();
  console.log(
    `live: raw ${base.toFixed(0)}/s, delivered ${own.toFixed(0)}/s, share ${(own / base).toFixed(3)}`,
  );
  return own / base;
}

const sink = await startSink();
await inFolder(async (folder) => {
  const enqueue = [];
  const live = [];
  for (let round = 0; round <= ROUNDS; round++) {
    enqueue.push(await enqueueShare(folder, round));
    live.push(await liveShare(folder, sink.origin, round));
  }
  // The first round is a warmup.
  const shares = { enqueue: median(enqueue.slice(1)), live: median(live.slice(1)) };
  printVerdicts("service-http", [
    {
      bar: "enqueue: at least 0.5 of the route that stores nothing",
      got: shares.enqueue.toFixed(2),
      ok: shares.enqueue >= 0.5,
    },
    {
      bar: "live: at least 0.15 of raw delivered",
      got: shares.live.toFixed(3),
      ok: shares.live >= 0.15,
    },
  ]);
});
sink.stop();
callers.disconnect();
