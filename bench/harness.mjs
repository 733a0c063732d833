/**
 * Harness: compares several implementations of the same operation. Contenders run in rounds, in a new
 * order each round, so that a warm cache or a busy minute favors none. Medians make one bad round
 * harmless. Times are per operation; ratios to the baseline are computed per round.
 */
import { spellReport } from "./report.mjs";

/**
 * @typedef {object} Contender
 * @property {string} name
 * @property {(operations: number) => unknown} run does that many operations in its own loop; may
 *   return a promise. The result is kept, so that the engine cannot optimize the work away.
 */

/**
 * @typedef {object} Comparison
 * @property {string} name
 * @property {string} [baseline] name of the contender the others are compared with; default: the first
 * @property {readonly Contender[]} contenders
 * @property {number} [rounds] default 21
 * @property {number} [roundMs] approximate time of a contender per round; default 20
 * @property {boolean} [collects] start each round with a full garbage collection; only with --expose-gc
 */

/**
 * @typedef {object} Result
 * @property {string} name
 * @property {number} nsPerOp median over the rounds
 * @property {number} nsLow 10th percentile
 * @property {number} nsHigh 90th percentile
 * @property {number} ratio to the baseline, median over the rounds; below 1 is faster
 * @property {number | undefined} bytesPerOp allocated bytes; only with --expose-gc
 */

/** @typedef {{ name: string, baseline: string, node: string, rounds: number, results: Result[] }} Report */

/** Time and random numbers, injected so that the test can pass its own. */
/** @typedef {{ nowNs(): number, draw(): number, heapBytes(): number, collect?: (() => void) | undefined }} Host */

/** @type {Host} */
const SYSTEM = {
  nowNs: () => Number(process.hrtime.bigint()),
  draw: () => Math.random(),
  heapBytes: () => process.memoryUsage().heapUsed,
  collect: globalThis.gc,
};

const MAX_OPERATIONS = 2 ** 30;
const BYTE_SAMPLES = 9;
const BYTE_OPERATIONS = 2_000;

/** The last results of the contenders: reachable, so that the engine must compute them. */
export const sink = { last: /** @type {unknown} */ (undefined) };

/**
 * Compares and prints a table, or JSON with `--json`.
 * @param {Comparison} comparison
 * @returns {Promise<Report>}
 */
export async function compare(comparison) {
  const report = await measure(comparison, SYSTEM);
  process.stdout.write(
    process.argv.includes("--json") ? `${JSON.stringify(report)}\n` : spellReport(report),
  );
  return report;
}

/**
 * @param {Comparison} comparison
 * @param {Host} host
 * @returns {Promise<Report>}
 */
export async function measure(comparison, host) {
  const { name, contenders, rounds = 21, roundMs = 20, collects = false } = comparison;
  const baseline = comparison.baseline ?? contenders[0]?.name ?? "";
  if (!contenders.some((contender) => contender.name === baseline)) {
    throw new Error(`baseline must be one of the contenders, got ${JSON.stringify(baseline)}`);
  }
  /** @type {Turn[]} */
  const turns = [];
  for (const contender of contenders) {
    turns.push({ contender, operations: await calibrate(contender, roundMs, host), ns: [] });
  }
  for (let round = 0; round < rounds; round++) {
    if (collects) host.collect?.();
    for (const turn of shuffled(turns, host)) {
      turn.ns.push((await timeOf(turn.contender, turn.operations, host)) / turn.operations);
    }
  }
  const base = turns.find((turn) => turn.contender.name === baseline)?.ns ?? [];
  /** @type {Result[]} */
  const results = [];
  for (const turn of turns) results.push(await resultOf(turn, base, host));
  return { name, baseline, node: process.version, rounds, results };
}

/** @typedef {{ contender: Contender, operations: number, ns: number[] }} Turn */

/**
 * @param {Turn} turn
 * @param {readonly number[]} base
 * @param {Host} host
 * @returns {Promise<Result>}
 */
async function resultOf({ contender, ns }, base, host) {
  return {
    name: contender.name,
    nsPerOp: quantile(ns, 0.5),
    nsLow: quantile(ns, 0.1),
    nsHigh: quantile(ns, 0.9),
    ratio: quantile(
      ns.map((value, round) => value / (base[round] ?? Number.NaN)),
      0.5,
    ),
    bytesPerOp: await bytesOf(contender, host),
  };
}

/**
 * Doubles the number of operations until a run takes long enough. This also warms up the code.
 * @param {Contender} contender
 * @param {number} roundMs
 * @param {Host} host
 */
async function calibrate(contender, roundMs, host) {
  let operations = 1;
  while (operations < MAX_OPERATIONS) {
    const ns = await timeOf(contender, operations, host);
    if (ns >= roundMs * 1e6) break;
    operations *= 2;
  }
  return operations;
}

/**
 * @param {Contender} contender
 * @param {number} operations
 * @param {Host} host
 */
async function timeOf(contender, operations, host) {
  const startNs = host.nowNs();
  const returned = contender.run(operations);
  sink.last = returned instanceof Promise ? await returned : returned;
  return host.nowNs() - startNs;
}

/**
 * Allocated bytes per operation: the growth of the heap over so few operations that no garbage
 * collection happens meanwhile.
 * @param {Contender} contender
 * @param {Host} host
 */
async function bytesOf(contender, host) {
  if (host.collect === undefined) return undefined;
  const samples = [];
  for (let sample = 0; sample < BYTE_SAMPLES; sample++) {
    host.collect();
    const before = host.heapBytes();
    await contender.run(BYTE_OPERATIONS);
    samples.push(Math.max(0, host.heapBytes() - before) / BYTE_OPERATIONS);
  }
  return quantile(samples, 0.5);
}

/**
 * Shuffles the items (Fisher-Yates).
 * @template T
 * @param {readonly T[]} items
 * @param {Host} host
 * @returns {T[]}
 */
function shuffled(items, host) {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(host.draw() * (last + 1));
    const moved = /** @type {T} */ (order[last]);
    order[last] = /** @type {T} */ (order[other]);
    order[other] = moved;
  }
  return order;
}

/**
 * The quantile `q` of the values: the nearest value, without interpolation.
 * @param {readonly number[]} values
 * @param {number} q
 */
export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}
