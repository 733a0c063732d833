/**
 * Peers: measures all contenders in interleaved rounds. Each measurement is made of one contender after
 * the other before the next measurement begins, in another order in each round, so that a busy minute
 * of the machine hits all of them. The first round warms them up and is not counted.
 */
import { startContender } from "./child.mjs";
import { LATENCIES, ONLY, ROUNDS, STEPS, TASKS, WARMUP } from "./settings.mjs";

/** @typedef {import("./child.mjs").Contender & { serverMs: () => Promise<number> }} Contender */
/** @typedef {import("./servers.mjs").Servers} Servers */
/** Values of one contender, one per measurement: rates, or latencies in ms. */
/** @typedef {{ enqueue: number[], batches: number[], drain: number[], live: number[], latency: number[][], ofRaw: number[], liveOfRaw: number[], cpu: Map<Step, Cpu[]> }} Values */
/** CPU time per job in microseconds: of the contender, and of the server of its store. */
/** @typedef {{ own: number, server: number }} Cpu */
/** @typedef {{ name: string, module: string, kind: import("./servers.mjs").Kind }} Entry */

/** @type {readonly Entry[]} */
export const ENTRIES = [
  { name: "raw undici", module: "raw", kind: "none" },
  { name: "Redrive, PostgreSQL", module: "redrive", kind: "postgres" },
  { name: "pg-boss", module: "pg-boss", kind: "postgres" },
  { name: "graphile-worker", module: "graphile-worker", kind: "postgres" },
  { name: "BullMQ, PostgreSQL", module: "bullmq", kind: "postgres" },
  { name: "Redrive, Redis", module: "redrive", kind: "redis" },
  { name: "BullMQ, Redis", module: "bullmq", kind: "redis" },
];

/** @typedef {"enqueue" | "drain" | "batches" | "live" | "latency"} Step */

/**
 * @param {Servers} servers
 * @param {{ origin: string }} sink
 * @returns {Promise<Map<string, Values>>}
 */
export async function measurePeers(servers, sink) {
  const entries = ENTRIES.filter(({ name }) => ONLY.length === 0 || ONLY.includes(name));
  /** @type {Contender[]} */
  const contenders = [];
  /** @type {Map<string, Values>} */
  const values = new Map();
  try {
    for (const { name, module, kind } of entries) {
      const { url, cpuMs } = await servers.add(kind);
      const contender = await startContender(name, module, storeUrl(url, module), sink.origin);
      contenders.push({ ...contender, serverMs: cpuMs });
      values.set(name, emptyValues());
    }
    for (let round = 0; round <= ROUNDS; round++) {
      for (const step of /** @type {Step[]} */ (STEPS)) {
        await measureStep(servers, sink, contenders, round, step, values);
      }
    }
  } finally {
    for (const contender of contenders) await contender.stop();
  }
  return values;
}

/** Redrive must accept the loss of a second of `appendfsync everysec`. @param {string} url @param {string} module */
export function storeUrl(url, module) {
  return module === "redrive" && url.startsWith("redis") ? `${url}?durability=relaxed` : url;
}

/** @returns {Values} */
function emptyValues() {
  const rates = { enqueue: [], batches: [], drain: [], live: [] };
  return { ...rates, latency: [], ofRaw: [], liveOfRaw: [], cpu: new Map() };
}

/**
 * @param {Servers} servers
 * @param {{ origin: string }} sink
 * @param {readonly Contender[]} contenders
 * @param {number} round 0: not counted
 * @param {Step} step
 * @param {Map<string, Values>} values
 */
async function measureStep(servers, sink, contenders, round, step, values) {
  const tasks = round === 0 ? WARMUP : TASKS;
  const count = step === "latency" ? LATENCIES : tasks;
  let raw = Number.NaN;
  const [first, ...others] = contenders;
  const order = [first, ...others.slice(round), ...others.slice(0, round)].slice(
    0,
    contenders.length,
  );
  for (const contender of /** @type {Contender[]} */ (order)) {
    const isRaw = contender.name === "raw undici";
    if (isRaw && step !== "drain" && step !== "live") continue;
    await servers.settle();
    await received(sink);
    const serverMs = await contender.serverMs();
    const { result, cpuMs } = await contender.measure(isRaw ? "drain" : step, count);
    const usedMs = (await contender.serverMs()) - serverMs;
    const cpu = { own: (1000 * cpuMs) / count, server: (1000 * usedMs) / count };
    if (step === "drain" || step === "live") await checkCount(sink, contender.name, count);
    if (isRaw) raw = result;
    say(round, step, contender.name, result, raw, cpu);
    if (round > 0) record(values, contender.name, step, result, raw, cpu);
  }
}

/** @param {Map<string, Values>} values @param {string} name @param {Step} step @param {any} result @param {number} raw @param {Cpu} cpu */
function record(values, name, step, result, raw, cpu) {
  const own = values.get(name);
  own?.[step].push(result);
  own?.cpu.set(step, [...(own.cpu.get(step) ?? []), cpu]);
  if (step === "drain") own?.ofRaw.push(result / raw);
  if (step === "live") own?.liveOfRaw.push(result / raw);
}

/** What the sink has received since the last call. @param {{ origin: string }} sink @returns {Promise<number>} */
async function received({ origin }) {
  return (await (await fetch(`${origin}/received`)).json()).requests;
}

/** Every job is one request. @param {{ origin: string }} sink @param {string} name @param {number} count */
async function checkCount(sink, name, count) {
  const found = await received(sink);
  if (found !== count) console.log(`  ${name} sent ${found} requests for ${count} jobs`);
}

/** @param {number} round @param {string} step @param {string} name @param {any} result @param {number} raw @param {Cpu} cpu */
function say(round, step, name, result, raw, { own, server }) {
  const label = round === 0 ? "warm-up" : `round ${round} of ${ROUNDS}`;
  const sorted = Array.isArray(result) ? result.toSorted((a, b) => a - b) : [];
  const text = Array.isArray(result)
    ? `p50 ${sorted[Math.floor(sorted.length / 2)].toFixed(2)} ms`
    : `${Math.round(result)}/s${Number.isNaN(raw) ? "" : `, ${(result / raw).toFixed(2)} of raw`}`;
  const cpu = `CPU time ${Math.round(own)} + ${Math.round(server)} us per job`;
  console.log(`${label}, ${step}: ${name} ${text}; ${cpu}`);
}
