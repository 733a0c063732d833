/**
 * `npm run bench -- simulator`: checks the limits of the simulator: a failover of 10,000 clients
 * within one frame, and of a million within half a second and 150 MB; the contention model at ten
 * times the speed of plain Python; engines below 8 kB each. Exits with 1 on a miss. Times are CPU
 * times, as in cpu-time.mjs.
 */
import { spawnSync } from "node:child_process";
import { gzipSync } from "node:zlib";
import { scenarios, simulate } from "@redrive/simulator";
import { rolldown } from "rolldown";
import { inRoot } from "../tools/setup/root.mjs";
import { printVerdicts } from "./bars.mjs";
import { quantile } from "./harness.mjs";

/** @typedef {import("./bars.mjs").Verdict} Verdict */

const ROUNDS = 15;
const OCC_RUNS = 100;

/**
 * The failover scenario with another number of clients.
 * @param {number} count
 */
function failover(count) {
  const scenario = /** @type {import("@redrive/simulator").CallsDocument} */ (
    scenarios["failover"]
  );
  const tiers = (scenario.tiers ?? []).map((tier) => ({
    ...tier,
    server: { ...tier.server, capacityPerSecond: count / 5 },
  }));
  return { ...scenario, clients: { kind: /** @type {const} */ ("CLOSED"), count, jobs: 1 }, tiers };
}

/**
 * CPU time in ms of `rounds` runs, after `warm` warmup runs.
 * @param {number} warm
 * @param {number} rounds
 * @param {(round: number) => unknown} run
 */
function times(warm, rounds, run) {
  for (let round = 0; round < warm; round++) run(round);
  return Array.from({ length: rounds }, (_, round) => {
    const before = process.cpuUsage();
    run(round);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
}

/**
 * @param {string} bar
 * @param {number} got
 * @param {number} most
 * @param {string} unit
 * @returns {Verdict}
 */
function atMost(bar, got, most, unit) {
  return {
    bar: `${bar}: at most ${most} ${unit}`,
    got: `${got.toFixed(1)} ${unit}`,
    ok: got <= most,
  };
}

/** @returns {Verdict[]} */
function fleets() {
  const frame = failover(10_000);
  const million = failover(1_000_000);
  const frameMs = quantile(
    times(10, ROUNDS, (seed) => simulate(frame, { seed })),
    0.5,
  );
  const millionMs = quantile(
    times(1, 5, (seed) => simulate(million, { seed })),
    0.5,
  );
  return [
    atMost("failover of 10,000 clients", frameMs, 16, "ms"),
    atMost("failover of 1,000,000 clients", millionMs, 500, "ms"),
    atMost("whole process with 1,000,000 clients", peakMegabytes(million), 150, "MB"),
  ];
}

/**
 * The peak memory of a separate Node process for one run of a scenario.
 * @param {import("@redrive/simulator").ScenarioDocument} scenario
 */
function peakMegabytes(scenario) {
  const program = `import { simulate } from "@redrive/simulator";
    simulate(${JSON.stringify(scenario)});
    console.log(process.resourceUsage().maxRSS);`;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8", cwd: inRoot("bench") });
  return (Number(stdout) * 1024) / 1e6;
}

const PYTHON = ["python3", [inRoot("bench", "occ.py"), "100", String(OCC_RUNS)]];

/** Events per second of the contention model in Python. Undefined without Python. */
function pythonSpeed() {
  const [command, args] = /** @type {[string, string[]]} */ (PYTHON);
  const { status, stdout } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) return undefined;
  const { events, seconds } = /** @type {{ events: number, seconds: number }} */ (
    JSON.parse(stdout)
  );
  return events / seconds;
}

/** The same for our engine: a write has four events in the model, and our engine merges two of them. */
function ourSpeed() {
  const scenario = /** @type {import("@redrive/simulator").ContentionDocument} */ (
    scenarios["contention"]
  );
  let writes = 0;
  const [ms = 0] = times(0, 1, () => {
    for (let seed = 0; seed < OCC_RUNS; seed++) writes += simulate(scenario, { seed }).attempts;
  });
  return (4 * writes) / (ms / 1000);
}

/** Turn and turn about; the median of the ratios. @returns {Verdict[]} */
function contention() {
  const bar = "contention model: at least 10 x plain Python";
  for (let warm = 0; warm < 5; warm++) ourSpeed();
  const pairs = Array.from({ length: 7 }, () => ({ ours: ourSpeed(), theirs: pythonSpeed() }));
  const ratios = pairs.flatMap(({ ours, theirs }) => (theirs === undefined ? [] : [ours / theirs]));
  if (ratios.length === 0) return [{ bar, got: "no python3", ok: false }];
  const ratio = quantile(ratios, 0.5);
  const millions =
    quantile(
      pairs.map(({ ours }) => ours),
      0.5,
    ) / 1e6;
  return [
    {
      bar,
      got: `${ratio.toFixed(1)} x (${millions.toFixed(1)} million events/s)`,
      ok: ratio >= 10,
    },
  ];
}

/**
 * Sizes without core: of each engine, and of `simulate` with every world, checks and report.
 * @returns {Promise<Verdict[]>}
 */
async function sizes() {
  return [
    atMost("engine of calls, minified and gzipped", await sizeOf("world", "calls.js"), 8, "kB"),
    atMost("engine of fleets", await sizeOf("world", "fleet.js"), 8, "kB"),
    atMost("simulate with all worlds, checks and report", await sizeOf("simulate.js"), 16, "kB"),
  ];
}

/** @param {...string} path below dist */
async function sizeOf(...path) {
  const input = inRoot("faces", "simulator", "dist", ...path);
  const bundle = await rolldown({ input, external: ["@redrive/core"] });
  const { output } = await bundle.generate({ format: "esm", minify: true, comments: false });
  return gzipSync(output[0].code).length / 1000;
}

printVerdicts("simulator", [...fleets(), ...contention(), ...(await sizes())]);
