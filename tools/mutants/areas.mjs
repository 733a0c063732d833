/**
 * Areas: which tests must find the mutants of a folder. The tests of a folder itself are fast and
 * find most of them; only a mutant that they miss meets the other tests.
 */
import { SERVICE } from "./mutant.mjs";

/** Tests of the whole service in one process. Tests of the built packages cannot see a mutant. */
const WHOLE_SERVICE = [SERVICE, "test/http", "test/agreement"];

/** A hundred seeds of each half; `test/simulation/mutants.test.ts` tests the simulation itself. */
export const SIMULATION = ["test/simulation/seeds-0.test.ts", "test/simulation/seeds-1.test.ts"];
export const SIMULATED_SEEDS = "200";

/**
 * Groups of test files or folders, in the order in which they run. The first group with a failing
 * test has found the mutant.
 * @param {import("./mutant.mjs").Mutant} mutant
 * @returns {readonly (readonly string[])[]}
 */
export function testsOf({ file, tests = [] }) {
  const folder = /^(faces\/service\/src\/[^/]+\/)/u.exec(file)?.[1];
  const near = folder === undefined ? [] : [folder];
  if (folder?.endsWith("/http/")) near.push("test/http");
  return [tests, near, WHOLE_SERVICE, SIMULATION].filter(({ length }) => length > 0);
}
