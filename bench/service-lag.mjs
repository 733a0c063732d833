/**
 * Lag: measures how late the first byte of an attempt is sent. Idle: compared with a bare timer in
 * the same run (limit: 0.7 ms more at the median, 2.5 ms more at the 99th percentile). Loaded: at half
 * of the measured drain rate, lag and settling together (limits: 5 ms at the 99th percentile in rounds
 * without stolen time, and twice the bare design under the same load). Every second task has a key, and
 * tasks of three days ago are removed at the same rate (limit: 2 ms per slice).
 *
 * The first byte is when undici has written the request head to the socket. Settling is from the
 * complete response to the confirmed commit.
 */
import { randomUUID } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import { existsSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { createRedrive, sqliteStore } from "@redrive/service";
import { bareLag } from "./service-bare-lag.mjs";
import { drain, fill } from "./service-load.mjs";
import { addOldTasks, timedSweeps } from "./service-old-tasks.mjs";
import { BODY, inFolder, median, quantile, setting, startSink } from "./service-parts.mjs";

const IDLE = setting("BENCH_IDLE", 300);
const LOAD_SECONDS = setting("BENCH_SECONDS", 5);
const DRAIN_TASKS = setting("BENCH_TASKS", 60_000);
/** 0: half of the measured rate. */
const GIVEN_RATE = setting("BENCH_RATE", 0);
const AHEAD_MS = 30;
/** The first idle tasks are a warmup and are not counted. */
const WARM = 20;
/** Tasks created at once: about those that become due within a tenth of a second. */
const CHUNK = 500;
const ROUNDS = setting("BENCH_ROUNDS", 5);

const now = () => performance.timeOrigin + performance.now();

/** Times the removal of old tasks. @type {ReturnType<typeof timedSweeps>} */
let sweeps;

/**
 * The timestamps, in columns. An object per task would cause garbage collections, and the pauses
 * would distort the measurement.
 */
const MOST = 200_000;
const sentAt = new Float64Array(MOST);
const answeredAt = new Float64Array(MOST);
/** @type {Map<string, number>} */
const numberOf = new Map();
const NUMBER = Symbol("number");
const NAME = "redrive-task-id: ";

subscribe("undici:client:sendHeaders", (message) => {
  const { request, headers } = /** @type {{ request: any, headers: string }} */ (message);
  const at = headers.indexOf(NAME) + NAME.length;
  const number = numberOf.get(headers.slice(at, at + 36)) ?? 0;
  request[NUMBER] = number;
  sentAt[number] = now();
});
subscribe("undici:request:trailers", (message) => {
  answeredAt[/** @type {{ request: any }} */ (message).request[NUMBER] ?? 0] = now();
});

/**
 * A bare timer for a whole millisecond, like every due time.
 * @param {number} at epoch ms @returns {Promise<number>} how late it rang
 */
const bareTimer = (at) =>
  new Promise((resolve) => setTimeout(() => resolve(now() - at), at - Date.now()));

/**
 * @param {import("@redrive/service").Redrive} redrive
 * @param {string} targetUrl
 */
async function idle(redrive, targetUrl) {
  /** @type {number[]} */
  const bare = [];
  /** @type {number[]} */
  const ours = [];
  for (let n = 0; n < IDLE; n++) {
    bare.push(await bareTimer(Date.now() + AHEAD_MS));
    const scheduledAt = Date.now() + AHEAD_MS;
    const ended = ending(redrive);
    await redrive.enqueue({ targetUrl, body: BODY, scheduledAt });
    await ended;
    ours.push((sentAt[0] ?? Number.NaN) - scheduledAt);
    if (n === WARM) for (const times of [bare, ours]) times.length = 0;
  }
  const over = (/** @type {number} */ share) => quantile(ours, share) - quantile(bare, share);
  console.log(
    JSON.stringify({
      bench: "lag, idle",
      bareP50: median(bare),
      oursP50: median(ours),
      bareP99: quantile(bare, 0.99),
      oursP99: quantile(ours, 0.99),
      overP50: over(0.5),
      overP99: over(0.99),
      bar: "0.7 and 2.5 ms",
    }),
  );
}

/** @param {import("@redrive/service").Redrive} redrive @returns {Promise<void>} */
const ending = (redrive) =>
  new Promise((resolve) => {
    const stop = redrive.onEvent(({ type }) => {
      if (type !== "task.succeeded") return;
      stop();
      resolve();
    });
  });

/** CPU time of the whole machine in ms, without this process. */
function elsewhereMs() {
  const { user, system } = process.cpuUsage();
  const busy = cpus().map(({ times }) => times.user + times.nice + times.sys + times.irq);
  return busy.reduce((sum, ms) => sum + ms, 0) - (user + system) / 1000;
}

/** The column of `/proc/stat` with the stolen time, in ticks of 10 ms. */
const STOLEN = 8;
const TICK_MS = 10;

/** CPU time in ms that the hypervisor gave to other machines; 0 if unknown. */
function stolenMs() {
  if (!existsSync("/proc/stat")) return 0;
  const [all = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  return Number(all.split(/\s+/u)[STOLEN] ?? 0) * TICK_MS;
}

/**
 * Tasks become due evenly. Also prints the CPU time of other processes: the sink needs little (0.15
 * of a core at 4,000/s), so more than that, or stolen time, disturbs the measurement.
 * @param {import("@redrive/service").Redrive} redrive
 * @param {import("@redrive/service").Store} store
 * @param {string} targetUrl
 * @param {number} perSecond
 * @returns {Promise<{ p99: number, stolen: number }>}
 */
async function loaded(redrive, store, targetUrl, perSecond) {
  numberOf.clear();
  const total = Math.floor(LOAD_SECONDS * perSecond);
  const firstAt = Date.now() + 4000 + total / 2;
  await addOldTasks(store, firstAt - 2000, perSecond, LOAD_SECONDS + 2);
  const dueAt = new Float64Array(total);
  for (let made = 0; made < total; made += CHUNK) {
    const inputs = Array.from({ length: Math.min(CHUNK, total - made) }, (_, index) => ({
      targetUrl,
      body: BODY,
      scheduledAt: Math.floor(firstAt + ((made + index) * 1000) / perSecond),
      ...(index % 2 === 0 ? { idempotencyKey: randomUUID() } : {}),
    }));
    for (const [index, result] of (await redrive.enqueueMany(inputs)).entries()) {
      if (result.status === "rejected") throw result.reason;
      dueAt[made + index] = inputs[index]?.scheduledAt ?? 0;
      numberOf.set(result.value.taskId, made + index);
    }
  }
  if (Date.now() > firstAt) throw new Error("the tasks were not created in time");
  const settledAt = new Float64Array(total);
  await bareTimer(Math.floor(firstAt) - 1);
  sweeps.take();
  const startMs = performance.now();
  const before = elsewhereMs();
  const stolenBefore = stolenMs();
  let left = total;
  await new Promise((resolve) => {
    const stop = redrive.onEvent(({ type, taskId = "" }) => {
      if (type !== "task.succeeded") return;
      settledAt[numberOf.get(taskId) ?? 0] = now();
      if (--left > 0) return;
      stop();
      resolve(undefined);
    });
  });
  const { slicesMs, removed } = sweeps.take();
  const coresElsewhere = (elsewhereMs() - before) / (performance.now() - startMs);
  const stolen = stolenMs() - stolenBefore;
  const columns = [dueAt, sentAt, answeredAt, settledAt];
  const times = Array.from({ length: total }, (_, n) => columns.map((column) => column[n] ?? 0));
  const lags = times.map(([due = 0, sent = 0]) => sent - due);
  const settles = times.map(([, , answered = 0, settled = 0]) => settled - answered);
  const sums = lags.map((lag, index) => lag + (settles[index] ?? Number.NaN));
  console.log(
    JSON.stringify({
      bench: `lag and settling at ${Math.floor(perSecond)}/s, one round`,
      lagP50: median(lags),
      lagP99: quantile(lags, 0.99),
      settleP50: median(settles),
      settleP99: quantile(settles, 0.99),
      sumP50: median(sums),
      sumP90: quantile(sums, 0.9),
      sumP99: quantile(sums, 0.99),
      removedTasks: removed,
      sliceP50: median(slicesMs),
      sliceP99: quantile(slicesMs, 0.99),
      sliceMax: Math.max(...slicesMs),
      coresElsewhere,
      stolenMs: stolen,
    }),
  );
  return { p99: quantile(sums, 0.99), stolen };
}

const sink = await startSink();
await inFolder(async (folder) => {
  const store = sqliteStore(join(folder, "lag.db"), { lowLatency: true });
  sweeps = timedSweeps(store);
  const redrive = await createRedrive({ store: sweeps.timed });
  await idle(redrive, `${sink.origin}/`);
  let rate = GIVEN_RATE;
  if (rate === 0) {
    await fill(redrive, sink.origin, DRAIN_TASKS);
    await drain(redrive, sink.origin, DRAIN_TASKS);
    await fill(redrive, sink.origin, DRAIN_TASKS);
    const drained = await drain(redrive, sink.origin, DRAIN_TASKS);
    console.log(`drain ${drained.toFixed(0)}/s`);
    rate = drained / 2;
  }
  /** @type {number[]} */
  const ours = [];
  /** @type {number[]} */
  const bare = [];
  /** Of the rounds without stolen time. @type {number[]} */
  const undisturbed = [];
  for (let round = 1; round <= ROUNDS; round++) {
    bare.push(quantile(await bareLag(folder, sink.origin, rate, LOAD_SECONDS), 0.99));
    const { p99, stolen } = await loaded(redrive, store, `${sink.origin}/`, rate);
    ours.push(p99);
    if (stolen === 0) undisturbed.push(p99);
  }
  console.log(
    JSON.stringify({
      bench: `lag and settling at ${Math.floor(rate)}/s`,
      p99: median(ours),
      bareP99: median(bare),
      ratio: median(ours) / median(bare),
      undisturbedP99: median(undisturbed),
      oursP99s: ours,
      bareP99s: bare,
      bar: "ratio 2; undisturbed 5 ms",
    }),
  );
  await redrive.stop();
});
sink.stop();
