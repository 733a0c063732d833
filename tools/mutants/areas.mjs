/**
 * Areas: which tests must find the mutants of a folder. They are few and fast, so that a fault is
 * found by a test of the code that has it, and not by chance in a test of the whole service.
 */

/** Test files or folders, by folder of the service. The first folder that fits counts. */
const AREAS = [
  { folder: "stores/memory", tests: ["faces/service/src/stores/memory/"] },
  { folder: "stores/sqlite", tests: ["faces/service/src/stores/sqlite/"] },
  { folder: "engine", tests: ["faces/service/src/engine/"] },
  { folder: "deliver", tests: ["faces/service/src/deliver/"] },
  { folder: "http", tests: ["faces/service/src/http/", "test/http/"] },
  { folder: "intake", tests: ["faces/service/src/intake/"] },
  { folder: "operations", tests: ["faces/service/src/operations/"] },
];

/**
 * @param {import("./mutant.mjs").Mutant} mutant
 * @returns {readonly string[]}
 */
export function testsOf({ file, tests = [] }) {
  const area = AREAS.find(({ folder }) => file.startsWith(`faces/service/src/${folder}/`));
  return [...(area?.tests ?? []), ...tests];
}
