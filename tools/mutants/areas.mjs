/**
 * Areas: which tests must find the mutants of a folder. They are few and fast, so that a fault is
 * found by a test of the code that has it, and not by chance in a test of the whole service.
 */

/** Test files or folders, by folder of the service. */
const AREAS = {
  stores: ["faces/service/src/stores/"],
  engine: ["faces/service/src/engine/"],
  deliver: ["faces/service/src/deliver/"],
  http: ["faces/service/src/http/", "test/http/"],
  intake: ["faces/service/src/intake/", "test/http/tasks.test.ts", "test/http/secrets.test.ts"],
  operations: ["faces/service/src/operations/", "test/http/dead-letters.test.ts"],
  model: ["faces/service/src/model/", "faces/service/src/stores/", "faces/service/src/intake/"],
  time: ["faces/service/src/time/"],
};

/**
 * @param {import("./mutant.mjs").Mutant} mutant
 * @returns {readonly string[]}
 */
export function testsOf({ file, tests = [] }) {
  const folder = /^faces\/service\/src\/([^/]+)\//u.exec(file)?.[1] ?? "";
  return [...(Object.hasOwn(AREAS, folder) ? AREAS[/** @type {"http"} */ (folder)] : []), ...tests];
}
