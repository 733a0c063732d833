/**
 * Before: this checkout beside another one on the same servers, in interleaved rounds: tasks per second of
 * `enqueue`, `drain` and `live`, and CPU time per task of node and server, as ratios of each round. CPU time
 * tells more on a busy machine. `--against` names the other checkout, which must be built.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inFolder, median, startSink } from "../service-parts.mjs";
import { startContender } from "./child.mjs";
import { storeUrl } from "./peers.mjs";
import { ROUNDS, TASKS } from "./settings.mjs";

const STEPS = ["enqueue", "drain", "live"];
const KINDS = /** @type {const} */ (["sqlite", "postgres", "redis"]);

/** @typedef {{ rate: number, cpuUs: number }} Found */

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {string} root of the other checkout
 * @param {readonly string[]} kinds
 */
export async function measureBefore(servers, root, kinds) {
  const sink = await startSink();
  const rows = [];
  for (const kind of KINDS.filter((one) => kinds.includes(one))) {
    const measure = (/** @type {string} */ folder) =>
      measureKind(servers, sink.origin, root, kind, folder);
    rows.push(...(await inFolder(measure)));
  }
  sink.stop();
  return rows;
}

/**
 * @param {import("./servers.mjs").Servers} servers
 * @param {string} origin
 * @param {string} root
 * @param {(typeof KINDS)[number]} kind
 * @param {string} folder
 */
async function measureKind(servers, origin, root, kind, folder) {
  const open = async (/** @type {string} */ name, /** @type {URL | undefined} */ script) => {
    const server = kind === "sqlite" ? undefined : await servers.add(kind);
    const file = `sqlite:${join(folder, `${name}.db`)}`;
    const url = server === undefined ? file : storeUrl(server.url, "redrive");
    const child = await startContender(`${kind}, ${name}`, "redrive", url, origin, script);
    return { ...child, serverMs: server?.cpuMs ?? (async () => 0) };
  };
  const script = pathToFileURL(join(root, "bench", "stores", "contender.mjs"));
  const sides = [await open("after", undefined), await open("before", script)];
  /** @type {Map<string, { rates: number[], cpus: number[] }>} */
  const ratios = new Map(STEPS.map((step) => [step, { rates: [], cpus: [] }]));
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const step of STEPS) {
        /** @type {Map<unknown, Found>} */
        const found = new Map();
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
          await servers.settle();
          const fromMs = await side.serverMs();
          const { result: rate, cpuMs } = await side.measure(step, TASKS);
          const usedMs = cpuMs + (await side.serverMs()) - fromMs;
          found.set(side, { rate, cpuUs: (1000 * usedMs) / TASKS });
        }
        const [after, before] = sides.map((side) => found.get(side));
        if (after === undefined || before === undefined) continue;
        console.log(`${kind}, round ${round}, ${step}: ${textOf(after)}, before ${textOf(before)}`);
        if (round === 0) continue;
        ratios.get(step)?.rates.push(after.rate / before.rate);
        ratios.get(step)?.cpus.push(after.cpuUs / before.cpuUs);
      }
    }
  } finally {
    for (const side of sides) await side.stop();
  }
  return STEPS.map((step) => {
    const { rates = [], cpus = [] } = ratios.get(step) ?? {};
    return { kind, step, rate: median(rates).toFixed(2), cpuTime: median(cpus).toFixed(2) };
  });
}

/** @param {Found} found */
function textOf({ rate, cpuUs }) {
  return `${rate.toFixed(0)}/s with ${cpuUs.toFixed(0)} us`;
}
