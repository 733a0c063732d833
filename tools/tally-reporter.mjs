/**
 * Tally reporter: counts the tests of a Vitest run for the last line of `npm test`. A file that
 * does not load and an error outside any test count as one failure each, or they would be lost.
 */
import { writeFileSync } from "node:fs";

/** @typedef {{ passed: number, failed: number, skipped: number }} Tally */

/** The file for the counts. `tools/test.mjs` sets it and reads the file when Vitest has ended. */
const TALLY_FILE = process.env["REDRIVE_TALLY_FILE"];

/** Vitest loads the default export of a reporter's file. */
export default class TallyReporter {
  /**
   * @param {readonly import("vitest/node").TestModule[]} modules
   * @param {readonly unknown[]} strayErrors
   */
  onTestRunEnd(modules, strayErrors) {
    const tally = { passed: 0, failed: strayErrors.length, skipped: 0 };
    for (const module of modules) addModule(tally, module);
    // Vitest reports a worker that died, but not the file that it was running.
    for (const module of modules.filter(isUnfinished)) {
      process.stderr.write(`no result: ${module.relativeModuleId} (its worker ended early)\n`);
    }
    if (TALLY_FILE !== undefined) writeFileSync(TALLY_FILE, JSON.stringify(tally));
  }
}

/** @param {import("vitest/node").TestModule} module */
function isUnfinished(module) {
  return module.state() === "queued" || module.state() === "pending";
}

/**
 * @param {Tally} tally
 * @param {import("vitest/node").TestModule} module
 */
function addModule(tally, module) {
  let failed = 0;
  for (const test of module.children.allTests()) {
    const state = test.result().state;
    if (state === "passed") tally.passed++;
    else if (state === "failed") failed++;
    else tally.skipped++;
  }
  tally.failed += failed === 0 && !module.ok() ? 1 : failed;
}
