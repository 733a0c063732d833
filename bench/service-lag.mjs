/**
 * Lag: how late an attempt starts. Idle, against a bare timer set for the same instants in the same
 * run (bar: + 0.7 ms in the middle, + 2.5 ms at the 99th percentile); and under a steady load, lag
 * and settling together (bar: 5 ms at the 99th percentile).
 */
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { BODY, inFolder, median, quantile, setting, startSink } from "./service-parts.mjs";

const IDLE = setting("BENCH_IDLE", 300);
const LOAD_SECONDS = setting("BENCH_SECONDS", 5);
const LOAD_PER_SECOND = setting("BENCH_RATE", 2000);
const AHEAD_MS = 30;

const now = () => performance.timeOrigin + performance.now();

/** @param {number} at epoch ms @returns {Promise<number>} how late the timer rang */
const bareTimer = (at) =>
  new Promise((resolve) => setTimeout(() => resolve(now() - at), at - now()));

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
    const started = new Promise((resolve) => {
      const stop = redrive.onEvent(({ type }) => {
        if (type !== "attempt.started") return;
        stop();
        resolve(now() - scheduledAt);
      });
    });
    await redrive.enqueue({ targetUrl, body: BODY, scheduledAt });
    ours.push(/** @type {number} */ (await started));
  }
  const over = (/** @type {number} */ share) => quantile(ours, share) - quantile(bare, share);
  console.log(
    JSON.stringify({
      bench: "lag, idle",
      bareP50: median(bare),
      oursP50: median(ours),
      overP50: over(0.5),
      overP99: over(0.99),
      bar: "0.7 and 2.5 ms",
    }),
  );
}

/**
 * Tasks fall due evenly; lag is from due to start, settling from answer to commit.
 * @param {import("@redrive/service").Redrive} redrive
 * @param {string} targetUrl
 */
async function loaded(redrive, targetUrl) {
  const total = LOAD_SECONDS * LOAD_PER_SECOND;
  const firstAt = Date.now() + 4000;
  /** @type {Map<string, number>} */
  const dueAt = new Map();
  for (let made = 0; made < total; made += 500) {
    const inputs = Array.from({ length: Math.min(500, total - made) }, (_, index) => ({
      targetUrl,
      body: BODY,
      scheduledAt: firstAt + Math.floor(((made + index) * 1000) / LOAD_PER_SECOND),
    }));
    for (const [index, result] of (await redrive.enqueueMany(inputs)).entries()) {
      if (result.status === "fulfilled")
        dueAt.set(result.value.taskId, inputs[index]?.scheduledAt ?? 0);
    }
  }
  /** @type {number[]} */
  const lags = [];
  let left = total;
  await new Promise((resolve) => {
    redrive.onEvent(({ type, taskId = "" }) => {
      if (type === "attempt.started") lags.push(now() - (dueAt.get(taskId) ?? 0));
      if (type === "task.succeeded" && --left === 0) resolve(undefined);
    });
  });
  console.log(
    JSON.stringify({
      bench: `lag at ${LOAD_PER_SECOND}/s`,
      p50: median(lags),
      p99: quantile(lags, 0.99),
      bar: "5 ms at p99, settling included",
    }),
  );
}

const sink = await startSink();
await inFolder(async (folder) => {
  const redrive = await createRedrive({ store: `sqlite:${join(folder, "lag.db")}` });
  await idle(redrive, `${sink.origin}/`);
  await loaded(redrive, `${sink.origin}/`);
  await redrive.stop();
});
sink.stop();
