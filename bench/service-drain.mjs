/**
 * `node bench/service-drain.mjs [--against <checkout>]`: measures how fast the service delivers due
 * tasks, as a share of a bare undici pool that sends the same bytes to the same sink, with fsync and
 * all guards. Limit: 0.30. With `--against`, rounds alternate between this checkout and another built
 * one, and the ratio of their speeds is printed.
 */
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { MAX_RATIO, otherCheckout } from "./against.mjs";
import { drain, fill } from "./service-load.mjs";
import { inFolder, median, raw, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 60_000);
const ROUNDS = setting("BENCH_ROUNDS", 3);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** @typedef {import("@redrive/service").Redrive} Redrive */

const sink = await startSink();
await inFolder(async (folder) => {
  const other = otherCheckout();
  const ours = await open(ROOT, join(folder, "drain.db"));
  await raw(sink.origin, TASKS);
  await round(ours);
  if (other === undefined) await besideRaw(ours);
  else {
    const before = await open(other, join(folder, "before.db"));
    await round(before);
    await beside(before, ours);
    await before.stop();
  }
  await ours.stop();
});
sink.stop();

/**
 * @param {string} root of a built checkout
 * @param {string} file
 * @returns {Promise<Redrive>}
 */
async function open(root, file) {
  const url = pathToFileURL(join(root, "faces/service/dist/index.js"));
  const { createRedrive } = await import(url.href);
  return createRedrive({ store: `sqlite:${file}` });
}

/**
 * @param {Redrive} redrive
 * @returns {Promise<number>} tasks a second
 */
async function round(redrive) {
  await fill(redrive, sink.origin, TASKS);
  return drain(redrive, sink.origin, TASKS);
}

/** @param {Redrive} ours */
async function besideRaw(ours) {
  const shares = [];
  for (let n = 0; n < ROUNDS; n++) {
    const bare = await raw(sink.origin, TASKS);
    const drained = await round(ours);
    shares.push(drained / bare);
    console.log(
      `raw ${bare.toFixed(0)}/s, drain ${drained.toFixed(0)}/s, share ${(drained / bare).toFixed(3)}`,
    );
  }
  console.log(JSON.stringify({ bench: "drain", share: median(shares), bar: 0.3 }));
}

/**
 * Ratios are of times, as in the other benchmarks: above 1 is slower.
 * @param {Redrive} before
 * @param {Redrive} after
 */
async function beside(before, after) {
  const ratios = [];
  for (let n = 0; n < ROUNDS; n++) {
    const speeds = new Map();
    const order = n % 2 === 0 ? [before, after] : [after, before];
    for (const redrive of order) speeds.set(redrive, await round(redrive));
    const old = speeds.get(before);
    const now = speeds.get(after);
    ratios.push(old / now);
    console.log(
      `before ${old.toFixed(0)}/s, after ${now.toFixed(0)}/s, ratio of times ${(old / now).toFixed(3)}`,
    );
  }
  const ratio = median(ratios);
  console.log(JSON.stringify({ bench: "drain against", ratio, bar: MAX_RATIO }));
  if (ratio > MAX_RATIO) process.exitCode = 1;
}
