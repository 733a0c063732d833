/**
 * `npm test`: installs what is missing, runs the tests, and ends with one line `N passed, N failed`.
 * Takes names of suites, files and options of Vitest. Without arguments it checks format, lint and
 * types as well, and runs every suite that does not wait for a request.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { runChecks, STATIC_CHECKS } from "./checks.mjs";
import { meetNeeds } from "./needs.mjs";
import { isBuildCurrent } from "./setup/build.mjs";
import { SetupFailed } from "./setup/command.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { say } from "./setup/progress.mjs";
import { root } from "./setup/root.mjs";
import { BUILT_VARIABLE, EXCLUDED_FILES_VARIABLE, filesOf, suites } from "./suites.mjs";
import { withRunFolder } from "./test-run.mjs";

/** @typedef {import("./tally-reporter.mjs").Tally} Tally */
/** @typedef {import("./needs.mjs").Missing} Missing */

/** Options of Vitest whose value is the name of a test, not of a file. */
const NAME_OPTIONS = new Set(["-t", "--testNamePattern"]);

/** Vitest fails if there is nothing to run, but excluded files are not a failure. */
const ALL_EXCLUDED = { code: 0, tally: { passed: 0, failed: 0, skipped: 0 } };

/** Counts as a failure: nothing ran. */
const NOTHING_RUN = { passed: 0, failed: 1, skipped: 0 };

requireNode();
const selection = select(process.argv.slice(2));
/** @type {readonly Missing[]} */
let missing = [];
let failedChecks = 0;
try {
  missing = await meetNeeds(selectedFiles());
  if (process.argv.length === 2) failedChecks = await runChecks(STATIC_CHECKS);
  const isAllExcluded = missing.length > 0 && excludedFiles().length === selectedFiles().length;
  const { code, tally } = isAllExcluded ? ALL_EXCLUDED : await runTests();
  close(code, tally);
} catch (error) {
  if (!(error instanceof SetupFailed)) throw error;
  say(error.message);
  close(1, NOTHING_RUN);
}

/**
 * Arguments that name a suite select it. The others, files and options, go to Vitest.
 * @param {readonly string[]} args
 */
function select(args) {
  const names = suites.map((suite) => suite.name);
  const named = args.filter((arg) => names.includes(arg));
  const usual = suites.filter(({ onRequest }) => onRequest !== true).map(({ name }) => name);
  return {
    suites: named.length === 0 ? usual : named,
    rest: args.filter((arg) => !names.includes(arg)),
  };
}

/**
 * Returns the test files that will run. Vitest treats an argument as part of a path, so an argument
 * that matches no path is the value of an option and does not filter.
 */
function selectedFiles() {
  const files = suites.filter(({ name }) => selection.suites.includes(name)).flatMap(filesOf);
  const words = selection.rest.filter(
    (word, i) => !word.startsWith("-") && !NAME_OPTIONS.has(selection.rest[i - 1] ?? ""),
  );
  const isNamed = (/** @type {string} */ file) =>
    words.some((word) => file.includes(word.replace(/^\.\//u, "")));
  const named = files.filter(isNamed);
  return named.length === 0 ? files : named;
}

/** @returns {Promise<{ code: number, tally: Tally }>} */
async function runTests() {
  return await withRunFolder(async (run) => {
    const tallyFile = join(run.folder, "tally.json");
    const code = await run.vitest(vitestArgs(), {
      REDRIVE_TALLY_FILE: tallyFile,
      [EXCLUDED_FILES_VARIABLE]: excludedFiles().join("\n"),
      [BUILT_VARIABLE]: String(isBuildCurrent()),
    });
    return { code, tally: readTally(tallyFile) };
  });
}

/** The files with missing needs, without duplicates. */
function excludedFiles() {
  return [...new Set(missing.flatMap(({ files }) => files))].map((file) => relative(root, file));
}

function vitestArgs() {
  return [
    "run",
    "--reporter=default",
    "--reporter=./tools/tally-reporter.mjs",
    ...selection.suites.map((name) => `--project=${name}`),
    ...selection.rest,
  ];
}

/**
 * @param {string} path
 * @returns {Tally}
 */
function readTally(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : NOTHING_RUN;
}

/**
 * Prints the excluded files and the final counts, and sets the exit code.
 * @param {number} code
 * @param {Tally} tally
 */
function close(code, tally) {
  const isStrict = ["true", "1"].includes(process.env["CI"] ?? "");
  const excluded = excludedFiles().length;
  for (const { need, command, files } of missing) {
    say(
      `${isStrict ? "Failed" : "Skipped"} because ${need} is missing (install it with: ${command}):`,
    );
    for (const file of files) say(`  ${relative(root, file)}`);
  }
  const skipped = tally.skipped + (isStrict ? 0 : excluded);
  // Vitest can fail without a failing test, for example because of a coverage threshold or a crash.
  const failedTests = Math.max(tally.failed + (isStrict ? excluded : 0), code === 0 ? 0 : 1);
  const failed = failedTests + failedChecks;
  process.exitCode = failed === 0 ? 0 : 1;
  say(`${tally.passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
}
