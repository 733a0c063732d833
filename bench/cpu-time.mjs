/**
 * CPU time: the harness with CPU time instead of wall time. On a shared machine, time of other
 * processes does not count; on an idle one, both are equal. The threads of the JavaScript engine
 * (garbage collection, compilation) count, because they are a cost.
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

/** Warms up until the engine has compiled the code, so that the harness can choose the length of its runs. */
const WARM_UP_OPERATIONS = 5_000;

/**
 * Like `compare` of the harness: prints a table, or JSON with `--json`.
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
