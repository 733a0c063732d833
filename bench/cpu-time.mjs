/**
 * CPU time: the harness with the processor's time in place of the wall's. On a machine that others
 * use too, what the scheduler gives to them is no cost of ours; on a quiet one the two agree. The
 * engine's own threads (collection, compilation) count: they are a cost.
 */
import { measure } from "./harness.mjs";
import { spellReport } from "./report.mjs";

/** @type {import("./harness.mjs").Host} */
const CPU = {
  nowNs: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) * 1_000;
  },
  draw: () => Math.random(),
  heapBytes: () => process.memoryUsage().heapUsed,
  collect: globalThis.gc,
};

/** Enough for the engine to have compiled what it will; the harness then sizes its turns undisturbed. */
const WARM_UP_OPERATIONS = 5_000;

/**
 * As the harness's `compare`: prints a table, or JSON when the program was given `--json`.
 * @param {import("./harness.mjs").Comparison} comparison
 * @returns {Promise<import("./harness.mjs").Report>}
 */
export async function compareCpuTime(comparison) {
  for (const { run } of comparison.contenders) await run(WARM_UP_OPERATIONS);
  const report = await measure(comparison, CPU);
  const isJson = process.argv.includes("--json");
  process.stdout.write(isJson ? `${JSON.stringify(report)}\n` : spellReport(report));
  return report;
}
