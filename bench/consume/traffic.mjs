/**
 * Traffic: runs every case with every broker, each in a thread, and prints how many good messages were
 * handled, and which a fleet has lost, with this library and with that of another checkout. It runs on Node 24, which loads the
 * scenarios of the tests.
 */

import { availableParallelism } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { brokers } from "../../test/servers/scenario/brokers.ts";
import { casesFor, fleetCases } from "../../test/servers/scenario/cases.ts";
import { minutesOf, runScenario } from "../../test/servers/scenario/scenario.ts";
import { otherCheckout } from "../against.mjs";
import { printVerdicts } from "../bars.mjs";
import { setting } from "../service-parts.mjs";

const MINUTES = setting("BENCH_MINUTES", 60);
const after = Math.max(20, MINUTES - 12);
const TRAFFIC = casesFor({ steady: MINUTES, before: 2, outage: 10, after });
const CASES = [...TRAFFIC, ...fleetCases];

/** @typedef {{ readonly broker: string, readonly test: string, readonly root: string }} Task */
/** @typedef {{ readonly text: string, readonly problems: readonly string[] }} Result */

const OWN = new URL("../..", import.meta.url).pathname;

/** @param {string} name */
const isWanted = (name) => (/** @type {string} */ value) => value.includes(process.env[name] ?? "");

/** @param {Task} task @returns {Promise<Result>} */
async function run({ broker, test, root }) {
  const load = (/** @type {string} */ path) =>
    import(pathToFileURL(join(root, "faces/library/dist", path)).href);
  const library = { ...(await load("consume.js")), ...(await load("index.js")) };
  const open =
    brokers[/** @type {import("../../test/servers/scenario/brokers.ts").BrokerName} */ (broker)];
  const one = CASES.find(({ name }) => name === test);
  if (one === undefined || (broker === "Kafka" && library.kafka === undefined)) {
    return { text: "no adapter", problems: [] };
  }
  const report = await runScenario(library, open, one.scenario);
  const text = TRAFFIC.includes(one) ? rateOf(one, report) : lossOf(report);
  return { text, problems: one.problems(report) };
}

/**
 * Good messages per second, and what was not handled.
 * @param {import("../../test/servers/scenario/cases.ts").Case} one
 * @param {import("../../test/servers/scenario/scenario.ts").Report} report
 */
function rateOf({ scenario: { outage } }, { good, left, deadGood }) {
  const from = outage === undefined ? 1 : outage.toMs / 60_000;
  const some = minutesOf(good).slice(from);
  const figure = outage === undefined ? Math.min(...some) : Math.max(...some);
  return `${figure.toFixed(1)}${left > 100 ? `, ${left} left` : ""}${deadGood > 0 ? `, ${deadGood} dead` : ""}`;
}

/** @param {import("../../test/servers/scenario/scenario.ts").Report} report */
function lossOf({ deadGood, left, overcounted, publishedGood }) {
  const counted = overcounted > 0 ? `, ${overcounted} attempts that nobody made` : "";
  return `${deadGood} of ${publishedGood} dead${left > deadGood ? `, ${left} not handled` : ""}${counted}`;
}

/** @param {readonly Task[]} tasks @returns {Promise<Result[]>} */
async function runAll(tasks) {
  /** @type {Result[]} */
  const results = [];
  const queue = [...tasks.entries()];
  const work = async () => {
    const worker = new Worker(new URL(import.meta.url));
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [index, task] = next;
      results[index] = await new Promise((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
        worker.postMessage(task);
      });
      worker.removeAllListeners("error");
      process.stderr.write(`  ${task.broker}, ${task.test}: ${results[index]?.text}\n`);
    }
    await worker.terminate();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return results;
}

async function main() {
  const other = otherCheckout();
  const chosen = Object.keys(brokers).filter(isWanted("BENCH_BROKER"));
  const cases = CASES.map(({ name }) => name).filter(isWanted("BENCH_CASE"));
  const pairs = chosen.flatMap((broker) => cases.map((test) => ({ broker, test })));
  const own = await runAll(pairs.map((pair) => ({ ...pair, root: OWN })));
  const before = other ? await runAll(pairs.map((pair) => ({ ...pair, root: other }))) : [];
  print(pairs, own, before);
  printVerdicts(
    "consumers",
    pairs.map(({ broker, test }, index) => {
      const problems = own[index]?.problems ?? [];
      const got = problems.length === 0 ? "yes" : problems.join("; ");
      return {
        bar: `${broker}, ${test}: good messages are handled`,
        got,
        ok: problems.length === 0,
      };
    }),
  );
}

/**
 * @param {readonly { readonly broker: string, readonly test: string }[]} pairs
 * @param {readonly Result[]} own
 * @param {readonly Result[]} before
 */
function print(pairs, own, before) {
  if (process.argv.includes("--json")) return;
  const isTraffic = (/** @type {number} */ at) =>
    TRAFFIC.some(({ name }) => name === pairs[at]?.test);
  const tables = [
    `Good messages per second, of 100 that arrive (${MINUTES} min, capacity 500): in the worst minute, or in the\n` +
      "best minute after an outage.",
    "A fleet through an outage of ten minutes, with 12 attempts in 24 h: dead letters of healthy messages.",
  ];
  for (const [number, title] of tables.entries()) {
    process.stdout.write(`${title}\n`);
    for (const [index, { broker, test }] of pairs.entries()) {
      if (isTraffic(index) !== (number === 0)) continue;
      const old = before[index];
      const columns = [broker.padEnd(24), test.padEnd(42), own[index]?.text ?? ""];
      process.stdout.write(`  ${columns.join("")}${old ? `   before: ${old.text}` : ""}\n`);
    }
  }
}

if (isMainThread) await main();
else {
  parentPort?.on("message", (task) => {
    void run(task).then((result) => parentPort?.postMessage(result));
  });
}
