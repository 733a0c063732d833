/**
 * Contender: the process of one contender, `contender.mjs MODULE URL ORIGIN`. Its parent sends
 * measurements by name, and it responds with the result of each.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { BATCH, CALLERS, IDLE_MS } from "./settings.mjs";

/**
 * @typedef {object} OpenParts
 * @property {string} url of the store
 * @property {string} origin of the sink
 * @property {() => void} done is called when a job has ended
 */
/**
 * @typedef {object} Queue
 * @property {(path: string) => Promise<unknown>} add one job: a POST to that path of the sink
 * @property {(path: string, count: number) => Promise<unknown>} addMany that many, by one call
 * @property {() => Promise<unknown>} start working
 * @property {() => Promise<unknown>} stop working
 * @property {() => Promise<unknown>} close
 * @property {(path: string, count: number) => Promise<unknown>} [addKeyed] as addMany, each with a key
 * @property {(count: number) => Promise<number>} [drain] instead of the measurement below
 */
/** @typedef {(parts: OpenParts) => Promise<Queue>} Open */

const [module = "", url = "", origin = ""] = process.argv.slice(2);
let left = 0;
let ended = () => {};

/** Resolves when that many jobs have ended. @param {number} count @returns {Promise<void>} */
function jobsEnd(count) {
  left = count;
  return new Promise((resolve) => {
    ended = resolve;
  });
}

const { open } = /** @type {{ open: Open }} */ (await import(`./${module}.mjs`));
const parts = {
  url,
  origin,
  done() {
    if (--left === 0) ended();
  },
};
let queue = await open(parts);

/** Per second. @param {number} count @param {() => Promise<unknown>} work @returns {Promise<number>} */
async function rateOf(count, work) {
  const startMs = performance.now();
  await work();
  return count / ((performance.now() - startMs) / 1000);
}

/** @param {number} count */
async function addByCallers(count) {
  let waiting = count;
  const caller = async () => {
    while (waiting-- > 0) await queue.add("/");
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}

/** @param {number} count @param {Queue["addMany"]} [add] */
async function addInBatches(count, add = queue.addMany) {
  for (let waiting = count; waiting > 0; waiting -= BATCH) {
    await add("/", Math.min(BATCH, waiting));
  }
}

/** @param {number} count */
async function drain(count) {
  if (queue.drain !== undefined) return queue.drain(count);
  const end = jobsEnd(count);
  const rate = await rateOf(count, async () => {
    await queue.start();
    await end;
  });
  await queue.stop();
  return rate;
}

/** Jobs are added one at a time while others run. @param {number} count */
async function live(count) {
  await queue.start();
  const end = jobsEnd(count);
  const rate = await rateOf(count, () => Promise.all([addByCallers(count), end]));
  await queue.stop();
  return rate;
}

/** From the call of `add` to the arrival at the sink, in ms. @param {number} count */
async function latency(count) {
  await queue.start();
  /** @type {number[]} */
  const startsMs = [];
  for (let made = 0; made < count; made++) {
    await sleep(IDLE_MS);
    const end = jobsEnd(1);
    startsMs.push(Number(process.hrtime.bigint()) / 1e6);
    await Promise.all([queue.add("/arrival"), end]);
  }
  await queue.stop();
  const { arrivals } = await (await fetch(`${origin}/received`)).json();
  if (arrivals.length !== count) throw new Error(`${arrivals.length} of ${count} jobs arrived`);
  return startsMs.map((startMs, index) => arrivals[index] - startMs);
}

/** @type {Readonly<Record<string, (count: number) => Promise<unknown>>>} */
const MEASUREMENTS = {
  enqueue: (count) => rateOf(count, () => addByCallers(count)),
  batches: (count) => rateOf(count, () => addInBatches(count)),
  drain,
  live,
  latency,
  keyed: (count) => addInBatches(count, queue.addKeyed),
  start: () => queue.start(),
  stop: () => queue.stop(),
  leave: () => queue.close(),
  async join() {
    queue = await open(parts);
  },
};

process.on("message", async (/** @type {{ name: string, count: number }} */ { name, count }) => {
  try {
    const measure = MEASUREMENTS[name];
    if (measure === undefined) throw new Error(`unknown measurement ${JSON.stringify(name)}`);
    const before = process.cpuUsage();
    const result = await measure(count);
    const { user, system } = process.cpuUsage(before);
    process.send?.({ result, cpuMs: (user + system) / 1000 });
  } catch (error) {
    process.send?.({ error: error instanceof Error ? error.stack : String(error) });
  }
});
process.on("disconnect", () => {
  // A contender that does not close in time is ended.
  setTimeout(() => process.exit(1), 5000).unref();
  void queue.close().finally(() => process.exit(0));
});
await queue.stop();
process.send?.({ result: "ready", cpuMs: 0 });
