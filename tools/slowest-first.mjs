/**
 * Slowest first: the order in which Vitest runs test files. In a fresh checkout, Vitest knows no
 * times and sorts by size. The slowest files are small, so they would start last and leave one core
 * idle.
 */
import { relative, sep } from "node:path";
import { BaseSequencer } from "vitest/node";
import { root } from "./setup/root.mjs";

/** Slowest first, from more than three minutes of one core to 20 seconds. */
export const SLOWEST = [
  "test/simulation/seeds-0.test.ts",
  "test/simulation/seeds-1.test.ts",
  "test/browser/web-system.test.ts",
  "test/labs/labs.test.ts",
  "test/browser/web-labs.test.ts",
  "test/e2e/serve.test.ts",
  "test/browser/web-shell.test.ts",
  "test/e2e/cli-sim.test.ts",
  "test/browser/web-curve.test.ts",
  "test/faults/fleet.test.ts",
  "test/browser/web-herd.test.ts",
  "test/browser/web-system-links.test.ts",
  "test/agreement/guards-sqlite.test.ts",
  "test/browser/web-advisor.test.ts",
  "test/faults/outbox-kill.test.ts",
  "test/e2e/move-store.test.ts",
  "test/http/restart.test.ts",
  "faces/service/src/stores/postgres/postgres-store.test.ts",
  "test/browser/web-current-results.test.ts",
  "test/faults/kill.test.ts",
  "test/faults/disk.test.ts",
  "test/http/endurance.test.ts",
  "test/agreement/guards.test.ts",
];

/** Vitest creates one per run to sort the files of all suites. */
export class SlowestFirst extends BaseSequencer {
  /**
   * @override
   * @param {import("vitest/node").TestSpecification[]} files
   */
  async sort(files) {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => rank(a.moduleId) - rank(b.moduleId));
  }
}

/**
 * Returns the position of a slow file, and one rank for all others. Sorting is stable.
 * @param {string} path
 */
function rank(path) {
  const found = SLOWEST.indexOf(relative(root, path).split(sep).join("/"));
  return found < 0 ? SLOWEST.length : found;
}
