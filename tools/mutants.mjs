/**
 * `npm run test:mutants`: runs the tests of the service once with each mutant of `tools/mutants`, and
 * expects them to fail. Prints one line per mutant, and exits with 1 if a mutant survives. Arguments
 * select the mutants whose file, declaration or name contains one of them.
 */
import { testsOf } from "./mutants/areas.mjs";
import { mutate } from "./mutants/mutant.mjs";
import { runTests } from "./mutants/run.mjs";
import { mutants } from "./mutants/table.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { whenOrphaned } from "./setup/orphan.mjs";
import { say, seconds } from "./setup/progress.mjs";

/** @typedef {import("./mutants/mutant.mjs").Mutant} Mutant */
/** @typedef {{ isExpected: boolean, verdict: string, by: string }} Result */

requireNode();
whenOrphaned(() => process.kill(process.pid, "SIGTERM"));
await exitOnFailure(installPackages);

const words = process.argv.slice(2);
const placed = mutants.map((mutant) => ({ mutant, changed: mutate(mutant) }));
const selected = placed.filter(({ mutant, changed }) => {
  const text = `${changed.file} ${mutant.in}: ${mutant.name}`;
  return words.length === 0 || words.some((word) => text.includes(word));
});
/** Groups of tests that pass without a mutant, by their names. */
const passing = new Set();
/** @type {string[]} */
const unexpected = [];
for (const [index, { mutant, changed }] of selected.entries()) {
  const startMs = performance.now();
  const { isExpected, verdict, by } = await test(mutant, changed);
  const time = seconds(performance.now() - startMs, 1).padStart(7);
  const place = `${index + 1}/${selected.length}`.padStart(7);
  const line = `${place} ${time} ${verdict.padEnd(10)} ${changed.file} ${mutant.in}: ${mutant.name}`;
  say(by === "" ? line : `${line}\n${" ".repeat(27)}${by}`);
  if (!isExpected) unexpected.push(line);
}
say(`\n${selected.length} mutants, ${unexpected.length} with an unexpected result`);
for (const line of unexpected) say(line);
process.exitCode = unexpected.length === 0 && selected.length > 0 ? 0 : 1;

/**
 * @param {Mutant} mutant
 * @param {import("./mutants/mutant.mjs").ChangedFile} changed
 * @returns {Promise<Result>}
 */
async function test(mutant, changed) {
  const { equivalent } = mutant;
  const tests = testsOf(changed.file, mutant);
  await expectPassing(tests);
  const { passed, loaded, failure } = await runTests(tests, changed);
  if (!loaded) return { isExpected: false, verdict: "not loaded", by: failure };
  if (passed) {
    return { isExpected: equivalent !== undefined, verdict: "survived", by: equivalent ?? "" };
  }
  return { isExpected: equivalent === undefined, verdict: "found", by: failure };
}

/**
 * Without a mutant, the tests must pass: otherwise their failure says nothing about a mutant.
 * @param {readonly string[]} tests
 */
async function expectPassing(tests) {
  const key = tests.join("\n");
  if (passing.has(key)) return;
  const { passed, failure } = await runTests(tests);
  if (!passed) throw new Error(`tests fail without a mutant: ${failure}`);
  passing.add(key);
}
