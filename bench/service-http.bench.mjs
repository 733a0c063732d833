/**
 * `npm run bench -- service-http`: what the HTTP front costs. **Enqueue**: tasks over HTTP by 64
 * callers, as a share of the same route with the same validation that stores nothing (bar 0.5).
 * **Live**: tasks POSTed one at a time while they are delivered, as a share of a bare undici pool
 * that sends the same bytes to the same sink (bar 0.15). fsync on, all guards on.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { createApp, listenApp } from "@redrive/service/http";
import { checkTarget } from "../faces/service/dist/deliver/target.js";
import { createTargetPolicy } from "../faces/service/dist/deliver/target-policy.js";
import { remembered } from "../faces/service/dist/remembered.js";
import { taskOf } from "../faces/service/dist/task-input.js";
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

/** Opens the front of a service for as long as `work` takes. @template T
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

/** Checks what a service checks, and stores nothing. @returns {Redrive} */
function storesNothing() {
  const targets = createTargetPolicy({ mode: "loopback" });
  const check = remembered(1000, (url) => checkTarget(url, targets));
  const making = { tenantId: "default", policyId: "background", policyVersion: 1 };
  let count = 0;
  const stub = {
    /** @param {import("@redrive/service").TaskInput} input */
    async enqueue(input) {
      const taskId = String(++count).padStart(36, "0");
      const now = Date.now();
      taskOf(input, { ...making, taskId, now, checkTarget: check });
      return { taskId, replayed: false };
    },
    onEvent: () => () => {},
    count: async () => [],
    destinations: async () => [],
  };
  return /** @type {Redrive} */ (/** @type {unknown} */ (stub));
}

const text = BODY.toString();

/** @param {string} folder @param {number} round */
async function enqueueShare(folder, round) {
  const task = {
    targetUrl: "http://127.0.0.1:7999/",
    body: text,
    scheduledAt: Date.now() + FAR_MS,
  };
  const base = await fronted(storesNothing(), (url) => post(url, task));
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
  // The first round warms up.
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
