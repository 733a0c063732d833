/**
 * Rate: how many requests per second of a backlog of one destination arrive under a rate limit, and how
 * many are sent within 100 ms at most. They may arrive closer to each other if the machine is busy.
 * `node bench/stores/rate.mjs [kind...]`, with Node 24, prints it for each store.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRedrive } from "@redrive/service";
import { inFolder, setting, startSink } from "../service-parts.mjs";
import { storeUrl } from "./peers.mjs";
import { Servers } from "./servers.mjs";

const PER_SECOND = setting("BENCH_RATE", 2_000);
const BURST = setting("BENCH_BURST", 100);
const SECONDS = setting("BENCH_SECONDS", 5);
const BATCH = 500;
const WINDOW_MS = 100;
const WARMUP_MS = 2000;

/** @typedef {"postgres" | "redis" | "sqlite"} RateKind */
/** @typedef {{ perSecond: number, largestWindow: number, allowedInWindow: number }} RateResult */

/**
 * @param {Servers} servers
 * @param {RateKind} kind
 * @returns {Promise<RateResult>}
 */
export async function measureRate(servers, kind) {
  if (kind === "sqlite")
    return await inFolder((folder) => measure(`sqlite:${join(folder, "rate.db")}`));
  const { url } = await servers.add(kind);
  return await measure(storeUrl(url, "redrive"));
}

/** @param {string} store @returns {Promise<RateResult>} */
async function measure(store) {
  const sink = await startSink();
  const redrive = await createRedrive({ store, leaseMs: 60_000 });
  /** @type {number[]} */
  const sentAt = [];
  redrive.onEvent(({ type, at }) => {
    if (type === "attempt.started") sentAt.push(at);
  });
  try {
    await redrive.configure(sink.origin, {
      rate: { perSecond: PER_SECOND, burst: BURST },
      concurrency: { max: 256 },
    });
    await redrive.pause(sink.origin);
    const count = PER_SECOND * (SECONDS + WARMUP_MS / 1000 + 2);
    for (let made = 0; made < count; made += BATCH) {
      const inputs = Array.from({ length: BATCH }, () => ({ targetUrl: `${sink.origin}/arrival` }));
      await redrive.enqueueMany(inputs);
    }
    await redrive.resume(sink.origin);
    await sleep(WARMUP_MS);
    await arrivals(sink);
    await sleep(SECONDS * 1000);
    return resultOf(await arrivals(sink), sentAt);
  } finally {
    await redrive.stop(1000);
    sink.stop();
  }
}

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** When the requests since the last call arrived, in ms. @param {{ origin: string }} sink @returns {Promise<readonly number[]>} */
async function arrivals({ origin }) {
  return (await (await fetch(`${origin}/received`)).json()).arrivals;
}

/** @param {readonly number[]} arrivedAt @param {readonly number[]} sentAt @returns {RateResult} */
function resultOf(arrivedAt, sentAt) {
  const [first = 0] = arrivedAt;
  const seconds = ((arrivedAt.at(-1) ?? first) - first) / 1000;
  return {
    perSecond: (arrivedAt.length - 1) / seconds,
    largestWindow: largestWindow(sentAt),
    allowedInWindow: (PER_SECOND * WINDOW_MS) / 1000 + BURST,
  };
}

/** @param {readonly number[]} at */
function largestWindow(at) {
  let from = 0;
  let largest = 0;
  for (const [index, end] of at.entries()) {
    while (/** @type {number} */ (at[from]) <= end - WINDOW_MS) from++;
    largest = Math.max(largest, index - from + 1);
  }
  return largest;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const given = /** @type {RateKind[]} */ (process.argv.slice(2));
  const servers = new Servers();
  try {
    for (const kind of given.length > 0
      ? given
      : /** @type {const} */ (["postgres", "redis", "sqlite"])) {
      const { perSecond, largestWindow, allowedInWindow } = await measureRate(servers, kind);
      const window = `${largestWindow} in ${WINDOW_MS} ms at most (${allowedInWindow} allowed)`;
      console.log(`${kind}: ${perSecond.toFixed(0)} of ${PER_SECOND} per second, ${window}`);
    }
  } finally {
    await servers.stop();
  }
}
