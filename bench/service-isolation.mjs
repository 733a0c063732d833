/**
 * Isolation: measures how a hanging destination affects another one. The time from creation to
 * success may grow by at most 10 % at the median and by half at the 99th percentile. Medians of nine
 * interleaved pairs.
 */
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { BODY, inFolder, median, quantile, setting, startSink } from "./service-parts.mjs";

const PAIRS = setting("BENCH_PAIRS", 9);
const TASKS = setting("BENCH_TASKS", 1000);
const HANGING = 200;

/** @param {import("@redrive/service").Redrive} redrive @param {string} targetUrl */
async function times(redrive, targetUrl) {
  /** @type {Map<string, number>} */
  const startedMs = new Map();
  /** @type {number[]} */
  const tookMs = [];
  let wake = () => {};
  const stop = redrive.onEvent(({ type, taskId = "" }) => {
    const startMs = startedMs.get(taskId);
    if (type !== "task.succeeded" || startMs === undefined) return;
    tookMs.push(performance.now() - startMs);
    wake();
  });
  for (let n = 0; n < TASKS; n++) {
    const startMs = performance.now();
    const { taskId } = await redrive.enqueue({ targetUrl, body: BODY });
    startedMs.set(taskId, startMs);
    await new Promise((resolve) => {
      wake = () => resolve(undefined);
    });
  }
  stop();
  return tookMs;
}

const sink = await startSink();
await inFolder(async (folder) => {
  /** @type {number[]} */
  const p50 = [];
  /** @type {number[]} */
  const p99 = [];
  const policy = { attemptTimeoutMs: 600_000, totalBudgetMs: 3_600_000 };
  for (let pair = 0; pair < PAIRS; pair++) {
    const redrive = await createRedrive({ store: `sqlite:${join(folder, `${pair}.db`)}` });
    await times(redrive, `${sink.origin}/`);
    const alone = await times(redrive, `${sink.origin}/`);
    const hang = { targetUrl: `${sink.origin}/hang`, destination: "hanging", policy };
    await redrive.enqueueMany(Array.from({ length: HANGING }, () => hang));
    const beside = await times(redrive, `${sink.origin}/`);
    p50.push(median(beside) / median(alone));
    p99.push(quantile(beside, 0.99) / quantile(alone, 0.99));
    console.log(
      `pair ${pair + 1}: p50 ${median(alone).toFixed(2)} and ${median(beside).toFixed(2)} ms`,
    );
    await redrive.stop(0);
  }
  const growth = { p50: median(p50), p99: median(p99) };
  console.log(JSON.stringify({ bench: "isolation", ...growth, bar: "1.1 and 1.5" }));
});
sink.stop();
