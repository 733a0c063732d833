/**
 * Longest first: the order in which Vitest takes test files. Its own is by size in a fresh clone,
 * where it knows no times yet, and the files that take longest are the smallest: they would begin
 * last, and one core would wait for the other.
 */
import { relative, sep } from "node:path";
import { BaseSequencer } from "vitest/node";
import { root } from "./setup/root.mjs";

/** By how long they take on one core: over a minute, about a minute, half a minute. */
export const LONGEST = [
  "test/labs/labs.test.ts",
  "test/simulation/seeds-0.test.ts",
  "test/simulation/seeds-1.test.ts",
  "test/faults/kill.test.ts",
];

/** Vitest makes one for a run, and asks it for the order of all files of all suites. */
export class LongestFirst extends BaseSequencer {
  /**
   * @override
   * @param {import("vitest/node").TestSpecification[]} files
   */
  async sort(files) {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => place(a.moduleId) - place(b.moduleId));
  }
}

/**
 * Below all others for the longest. Sorting keeps the order of equals.
 * @param {string} path
 */
function place(path) {
  const found = LONGEST.indexOf(relative(root, path).split(sep).join("/"));
  return found < 0 ? LONGEST.length : found;
}
